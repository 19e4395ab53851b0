"""What a study says: a claim put to the test by a rule, and the result, as a verdict with its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hopscope.statistics import clopper_pearson
from studies.tools.inference import rank_correlation_test, share_in_words
from studies.tools.records import markdown_table

StudyVerdict = Literal["as asked", "not as asked", "inconclusive", "not run"]

_CONTRARY: Mapping[StudyVerdict, StudyVerdict] = {"as asked": "not as asked", "not as asked": "as asked"}

RARE = 0.1
"""What happens less often than this, with 95% confidence, counts as never."""

TOO_FEW = "too few models to tell"


@dataclass(frozen=True)
class Judgement:
    """One claim, judged by the rule in the docstring of its study.

    Attributes:
        asked: the claim.
        verdict: what the data say about it.
        ours: the numbers, in words, with intervals.
        n: how many runs, models or questions stand behind it.
        reason: why it is inconclusive or was not run.
    """

    asked: str
    verdict: StudyVerdict
    ours: str = ""
    n: int = 0
    reason: str = ""


def all_of(
    asked: str, models: Sequence[bool], against: bool, missing: bool, none: str = "no model answers"
) -> Judgement:
    """Judge whether something holds for all models that answer, and for more than half of any others.

    As asked: for all, none missing, and the lower 95% Clopper-Pearson bound on the share is above one half (six models
    or more). Not as asked: one speaks against it. Else inconclusive.

    Args:
        asked: the claim.
        models: for each model that answers, whether it holds.
        against: whether one speaks against it, which is enough to refute it.
        missing: whether a model is not finished.
        none: the reason to give where there is no such model.
    """
    n, yes = len(models), sum(models)
    ours = f"{yes} of {n}"
    if not n:
        return Judgement(asked, "not run", reason=none)
    if against:
        return Judgement(asked, "not as asked", ours, n)
    if missing:
        return Judgement(asked, "inconclusive", ours, n, "seeds are missing")
    if yes < n:
        return Judgement(asked, "inconclusive", ours, n, "some are")
    if clopper_pearson(yes, n)[0] <= 0.5:
        return Judgement(asked, "inconclusive", ours, n, TOO_FEW)
    return Judgement(asked, "as asked", ours, n)


def most_of(asked: str, models: Sequence[bool], told: str = "", few: str = TOO_FEW) -> Judgement:
    """Judge whether something holds for most models, by the 95% Clopper-Pearson interval of the share.

    Args:
        asked: the claim.
        models: for each model, whether it holds.
        told: what to report besides that share.
        few: the reason to give where the interval contains one half.
    """
    if not models:
        return Judgement(asked, "not run")
    n, yes = len(models), sum(models)
    low, high = clopper_pearson(yes, n)
    ours = _beside(share_in_words(yes, n), told)
    if low > 0.5:
        return Judgement(asked, "as asked", ours, n)
    if high < 0.5:
        return Judgement(asked, "not as asked", ours, n)
    return Judgement(asked, "inconclusive", ours, n, few)


def falls_with(asked: str, more: Sequence[float], values: Sequence[float], what: str = "") -> Judgement:
    """Judge whether values fall as something rises, by Spearman's rank correlation, p below 5%: of all, and of all but
    those where it is highest, which may do it alone.

    Args:
        asked: the claim.
        more: what rises, for each value.
        values: the values.
        what: the two, in words.
    """
    if len({*more}) < 2:
        return Judgement(asked, "not run")
    below = [(one, value) for one, value in zip(more, values, strict=True) if one < max(more)]
    (all_, p), (rest, p_rest) = (
        rank_correlation_test(more, values),
        rank_correlation_test(*map(list, zip(*below, strict=True))),
    )
    of = f" of {what}" if what else ""
    ours = f"rank correlation{of} {all_:+.2f}, p = {p:.2g}; without the most {rest:+.2f}, p = {p_rest:.2g}"
    sure = max(p, p_rest) < 0.05
    if sure and max(all_, rest) < 0:
        return Judgement(asked, "as asked", ours, len(values))
    if sure and min(all_, rest) > 0:
        return Judgement(asked, "not as asked", ours, len(values))
    return Judgement(asked, "inconclusive", ours, len(values), TOO_FEW)


def never(
    asked: str, ours: str, n: int, *, happened: bool, rare: float = RARE, few: str = TOO_FEW, lacking: str = ""
) -> Judgement:
    """Judge whether something never happens, by the upper 95% Clopper-Pearson bound on how often it would.

    Args:
        asked: the claim.
        ours: the finding, in words.
        n: the number of cases in which it could have happened.
        happened: whether it did, which is enough to refute the claim.
        rare: what happens less often than this counts as never.
        few: the reason to give where the bound is not below that.
        lacking: the positive control that is missing, without which it says nothing that the thing did not happen.
    """
    if happened:
        return Judgement(asked, "not as asked", ours, n)
    if lacking or clopper_pearson(0, n)[1] >= rare:
        return Judgement(asked, "inconclusive", ours, n, lacking or few)
    return Judgement(asked, "as asked", ours, n)


def at_all(
    asked: str, ours: str, n: int, *, happened: bool, rare: float = RARE, few: str = TOO_FEW, lacking: str = ""
) -> Judgement:
    """Judge whether something happens at all: `never` of the opposite claim."""
    none = never(asked, ours, n, happened=happened, rare=rare, few=few, lacking=lacking)
    return replace(none, verdict=_CONTRARY.get(none.verdict, none.verdict))


def as_many_as(
    asked: str, wanted: int, yes: int, n: int, planned: int, *, told: str = "", refuted: bool | None = None
) -> Judgement:
    """Judge whether something holds for as many seeds as are wanted, as soon as missing seeds cannot change the answer.

    Args:
        asked: the claim.
        wanted: for how many seeds it must hold.
        yes: for how many seeds it holds.
        n: how many seeds are finished.
        planned: how many seeds there will be.
        told: what to report besides the share.
        refuted: whether one of them refutes the claim, however many it holds for; None where none can.
    """
    if not n:
        return Judgement(asked, "not run")
    ours, missing = _beside(share_in_words(yes, n), told), planned - n
    if refuted or yes + missing < wanted:
        return Judgement(asked, "not as asked", ours, n)
    if yes >= wanted and (refuted is None or not missing):
        return Judgement(asked, "as asked", ours, n)
    return Judgement(asked, "inconclusive", ours, n, f"{missing} seeds are missing")


def _beside(share: str, told: str) -> str:
    return f"{share}; {told}" if told else share


def judgements_table(judgements: Sequence[Judgement]) -> str:
    """The judgements as a Markdown table."""
    told = ("; ".join(part for part in (judgement.ours, judgement.reason) if part) for judgement in judgements)
    rows = (
        (judgement.asked, judgement.verdict, found, judgement.n)
        for judgement, found in zip(judgements, told, strict=True)
    )
    return markdown_table(("asked", "verdict", "found", "n"), rows)
