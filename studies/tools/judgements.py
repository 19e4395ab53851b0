"""What a study concludes: a hypothesis, tested by a rule, with its verdict and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hopscope.statistics import clopper_pearson
from studies.tools.inference import rank_correlation_test, share_in_words
from studies.tools.records import markdown_table

StudyVerdict = Literal["confirmed", "refuted", "inconclusive", "not run"]

_CONTRARY: Mapping[StudyVerdict, StudyVerdict] = {"confirmed": "refuted", "refuted": "confirmed"}

RARE = 0.1
"""What happens less often than this, with 95% confidence, counts as never."""

TOO_FEW = "too few models to tell"


@dataclass(frozen=True)
class Judgement:
    """One hypothesis, judged by the rule in the docstring of its study.

    Attributes:
        hypothesis: what is tested, as a statement.
        verdict: what the data say about it.
        observed: the numbers, in words, with intervals.
        n: the number of runs, models or questions behind it.
        reason: why it is inconclusive or was not run.
    """

    hypothesis: str
    verdict: StudyVerdict
    observed: str = ""
    n: int = 0
    reason: str = ""


def all_of(
    hypothesis: str, models: Sequence[bool], against: bool, missing: bool, none: str = "no model answers"
) -> Judgement:
    """Judge whether something is true of all models that answer, and of more than half of any others.

    Confirmed: of all, none missing, and the lower 95% Clopper-Pearson bound on the share is above one half (six models
    or more). Refuted: one model is against it. Otherwise inconclusive.

    Args:
        hypothesis: what is tested.
        models: for each model that answers, whether it is true.
        against: whether one model refutes it.
        missing: whether a model is not finished.
        none: the reason to give where there is no such model.
    """
    n, yes = len(models), sum(models)
    observed = f"{yes} of {n}"
    if not n:
        return Judgement(hypothesis, "not run", reason=none)
    if against:
        return Judgement(hypothesis, "refuted", observed, n)
    if missing:
        return Judgement(hypothesis, "inconclusive", observed, n, "seeds are missing")
    if yes < n:
        return Judgement(hypothesis, "inconclusive", observed, n, "some are")
    if clopper_pearson(yes, n)[0] <= 0.5:
        return Judgement(hypothesis, "inconclusive", observed, n, TOO_FEW)
    return Judgement(hypothesis, "confirmed", observed, n)


def most_of(hypothesis: str, models: Sequence[bool], also: str = "", few: str = TOO_FEW) -> Judgement:
    """Judge whether something is true of most models, by the 95% Clopper-Pearson interval of the share.

    Args:
        hypothesis: what is tested.
        models: for each model, whether it is true.
        also: what to report besides that share.
        few: the reason to give where the interval contains one half.
    """
    if not models:
        return Judgement(hypothesis, "not run")
    n, yes = len(models), sum(models)
    low, high = clopper_pearson(yes, n)
    observed = _joined(share_in_words(yes, n), also)
    if low > 0.5:
        return Judgement(hypothesis, "confirmed", observed, n)
    if high < 0.5:
        return Judgement(hypothesis, "refuted", observed, n)
    return Judgement(hypothesis, "inconclusive", observed, n, few)


def falls_with(hypothesis: str, more: Sequence[float], values: Sequence[float], between: str = "") -> Judgement:
    """Judge whether values fall as something rises: Spearman's rank correlation is negative, p below 5% by permutation,
    for all values and again without those where it is highest, which might do it alone.

    Args:
        hypothesis: what is tested.
        more: what rises, for each value.
        values: the values.
        between: the two, in words.
    """
    if len({*more}) < 2:
        return Judgement(hypothesis, "not run")
    below = [(cause, value) for cause, value in zip(more, values, strict=True) if cause < max(more)]
    everywhere, p = rank_correlation_test(more, values)
    rest, p_rest = rank_correlation_test(*map(list, zip(*below, strict=True)))
    of = f" of {between}" if between else ""
    observed = f"rank correlation{of} {everywhere:+.2f}, p = {p:.2g}; without the most {rest:+.2f}, p = {p_rest:.2g}"
    significant = max(p, p_rest) < 0.05
    if significant and max(everywhere, rest) < 0:
        return Judgement(hypothesis, "confirmed", observed, len(values))
    if significant and min(everywhere, rest) > 0:
        return Judgement(hypothesis, "refuted", observed, len(values))
    return Judgement(hypothesis, "inconclusive", observed, len(values), TOO_FEW)


def never(
    hypothesis: str, observed: str, n: int, *, happened: bool, rare: float = RARE, few: str = TOO_FEW, lacking: str = ""
) -> Judgement:
    """Judge whether something never happens, by the upper 95% Clopper-Pearson bound on how often it would.

    Args:
        hypothesis: what is tested.
        observed: the finding, in words.
        n: the number of cases in which it could have happened.
        happened: whether it did, which refutes the hypothesis.
        rare: what happens less often than this counts as never.
        few: the reason to give where the bound is not below that.
        lacking: the positive control that is missing, without which it means nothing that it did not happen.
    """
    if happened:
        return Judgement(hypothesis, "refuted", observed, n)
    if lacking or clopper_pearson(0, n)[1] >= rare:
        return Judgement(hypothesis, "inconclusive", observed, n, lacking or few)
    return Judgement(hypothesis, "confirmed", observed, n)


def at_all(
    hypothesis: str, observed: str, n: int, *, happened: bool, rare: float = RARE, few: str = TOO_FEW, lacking: str = ""
) -> Judgement:
    """Judge whether something happens at all: `never` of the opposite hypothesis."""
    none = never(hypothesis, observed, n, happened=happened, rare=rare, few=few, lacking=lacking)
    return replace(none, verdict=_CONTRARY.get(none.verdict, none.verdict))


def as_many_as(
    hypothesis: str, wanted: int, yes: int, n: int, planned: int, *, also: str = "", refuted: bool | None = None
) -> Judgement:
    """Judge whether something is true of as many seeds as are wanted, as soon as missing seeds cannot change the
    verdict.

    Args:
        hypothesis: what is tested.
        wanted: how many seeds it must be true of.
        yes: how many seeds it is true of.
        n: how many seeds are finished.
        planned: how many seeds there will be.
        also: what to report besides the share.
        refuted: whether one of them refutes the hypothesis by itself; None where none can.
    """
    if not n:
        return Judgement(hypothesis, "not run")
    observed, missing = _joined(share_in_words(yes, n), also), planned - n
    if refuted or yes + missing < wanted:
        return Judgement(hypothesis, "refuted", observed, n)
    if yes >= wanted and (refuted is None or not missing):
        return Judgement(hypothesis, "confirmed", observed, n)
    return Judgement(hypothesis, "inconclusive", observed, n, f"{missing} seeds are missing")


def _joined(*parts: str) -> str:
    return "; ".join(filter(None, parts))


def judgements_table(judgements: Sequence[Judgement]) -> str:
    """The judgements as a Markdown table."""
    rows = (
        (judgement.hypothesis, judgement.verdict, _joined(judgement.observed, judgement.reason), judgement.n)
        for judgement in judgements
    )
    return markdown_table(("hypothesis", "verdict", "observed", "n"), rows)
