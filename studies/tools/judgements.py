"""Judgements of studies: a hypothesis, tested by a rule, with its verdict and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hopscope.statistics import clopper_pearson, fisher
from studies.tools.inference import rank_correlation_test, share_in_words
from studies.tools.records import markdown_table

StudyVerdict = Literal["confirmed", "refuted", "inconclusive", "not run"]

_CONTRARY: Mapping[StudyVerdict, StudyVerdict] = {"confirmed": "refuted", "refuted": "confirmed"}

RARE = 0.1
"""An event that happens less often than this, with 95% confidence, counts as never happening."""

TOO_FEW = "too few models to tell"


@dataclass(frozen=True)
class Judgement:
    """One hypothesis, judged by the rule in the docstring of its study.

    Attributes:
        hypothesis: the statement that is tested.
        verdict: what the data say about the hypothesis.
        observed: the numbers, in words, with intervals.
        n: the number of runs, models or questions behind the verdict.
        reason: why the verdict is `inconclusive` or `not run`.
    """

    hypothesis: str
    verdict: StudyVerdict
    observed: str = ""
    n: int = 0
    reason: str = ""


def all_of(
    hypothesis: str, models: Sequence[bool], against: bool, missing: bool, none: str = "no model answers"
) -> Judgement:
    """Judge whether a statement is true of all models that answer, and so of more than half of any further models.

    Confirmed: the statement is true of all models, no model is missing, and the lower 95% Clopper-Pearson bound on the
    share is above one half (six models or more). Refuted: a model refutes it. Otherwise inconclusive.

    Args:
        hypothesis: the statement.
        models: for each model that answers, whether the statement is true.
        against: whether a model refutes the statement.
        missing: whether a model is not finished.
        none: the reason to give if no model answers.
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
        return Judgement(hypothesis, "inconclusive", observed, n, "true of only some models")
    if clopper_pearson(yes, n)[0] <= 0.5:
        return Judgement(hypothesis, "inconclusive", observed, n, TOO_FEW)
    return Judgement(hypothesis, "confirmed", observed, n)


def most_of(hypothesis: str, models: Sequence[bool], also: str = "", few: str = TOO_FEW) -> Judgement:
    """Judge whether a statement is true of most models, by the 95% Clopper-Pearson interval of the share.

    Args:
        hypothesis: the statement.
        models: for each model, whether the statement is true.
        also: text to report after the share.
        few: the reason to give if the interval contains one half.
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
    """Judge whether `values` fall as `more` rises, by Spearman's rank correlation with p below 5% (by permutation).

    Confirmed: the correlation is negative for all values, and also without the values where `more` is highest, since
    these values could cause the correlation alone. Refuted: both correlations are positive. Otherwise inconclusive.

    Args:
        hypothesis: the statement that is tested.
        more: for each value, the quantity that rises.
        values: the values.
        between: the names of the two quantities, in words.
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


def more_often(hypothesis: str, more: Sequence[bool], less: Sequence[bool]) -> Judgement:
    """Judge whether a statement is true more often of some models than of others, by Fisher's exact test.

    Confirmed: p is below 2.5%, one-sided. Refuted: the same test the other way. Otherwise inconclusive.

    Args:
        hypothesis: the statement that is tested.
        more: for each model of the first kind, whether the statement is true.
        less: the same for the other kind.
    """
    if not more or not less:
        return Judgement(hypothesis, "not run")
    counts, n = ((sum(more), len(more)), (sum(less), len(less))), len(more) + len(less)
    p, against = fisher(*counts[0], *counts[1]), fisher(*counts[1], *counts[0])
    observed = (
        f"{share_in_words(*counts[0])} against {share_in_words(*counts[1])}, p = {min(p, against):.2g} (one-sided)"
    )
    if min(p, against) < 0.025:
        return Judgement(hypothesis, "confirmed" if p < against else "refuted", observed, n)
    return Judgement(hypothesis, "inconclusive", observed, n, TOO_FEW)


def never(
    hypothesis: str, observed: str, n: int, *, happened: bool, rare: float = RARE, few: str = TOO_FEW, lacking: str = ""
) -> Judgement:
    """Judge whether an event never happens, by the upper 95% Clopper-Pearson bound on how often the event would.

    Args:
        hypothesis: the statement that is tested.
        observed: the finding, in words.
        n: the number of cases in which the event could have happened.
        happened: whether the event happened, which refutes the hypothesis.
        rare: the share of cases below which the event counts as never happening.
        few: the reason to give if the bound is not below `rare`.
        lacking: the positive control that is missing, in words. Without it, the absence of the event means nothing.
    """
    if happened:
        return Judgement(hypothesis, "refuted", observed, n)
    if lacking or clopper_pearson(0, n)[1] >= rare:
        return Judgement(hypothesis, "inconclusive", observed, n, lacking or few)
    return Judgement(hypothesis, "confirmed", observed, n)


def at_all(
    hypothesis: str, observed: str, n: int, *, happened: bool, rare: float = RARE, lacking: str = ""
) -> Judgement:
    """Judge whether an event happens at all: the verdict is the opposite of that of `never`."""
    none = never(hypothesis, observed, n, happened=happened, rare=rare, lacking=lacking)
    return replace(none, verdict=_CONTRARY.get(none.verdict, none.verdict))


def as_many_as(
    hypothesis: str, wanted: int, yes: int, n: int, planned: int, *, also: str = "", refuted: bool | None = None
) -> Judgement:
    """Judge whether a statement is true of at least `wanted` seeds, as soon as missing seeds cannot change the verdict.

    Args:
        hypothesis: the statement.
        wanted: the number of seeds that the statement must be true of.
        yes: the number of finished seeds that the statement is true of.
        n: the number of finished seeds.
        planned: the number of all seeds.
        also: text to report after the share.
        refuted: whether a single seed refutes the statement; None if a single seed cannot.
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
    """Return the judgements as a Markdown table."""
    rows = (
        (judgement.hypothesis, judgement.verdict, _joined(judgement.observed, judgement.reason), judgement.n)
        for judgement in judgements
    )
    return markdown_table(("hypothesis", "verdict", "observed", "n"), rows)
