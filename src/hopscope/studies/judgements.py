"""What a study says: a claim put to the test by a rule, and what came out, as a verdict with its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hopscope.studies.statistics import clopper_pearson, share_in_words

Verdict = Literal["as asked", "not as asked", "inconclusive", "not run"]


@dataclass(frozen=True)
class Judgement:
    """One claim, judged by the rule in the docstring of its study.

    Attributes:
        asked: the claim.
        verdict: what the data say of it.
        ours: the numbers, in words, with intervals.
        n: what stands behind it.
        reason: why it is inconclusive.
    """

    asked: str
    verdict: Verdict
    ours: str = ""
    n: int = 0
    reason: str = ""


@dataclass(frozen=True)
class Judgements:
    """All of a study's.

    Attributes:
        judgements: in the order of its rules.
    """

    judgements: tuple[Judgement, ...]


def most_of(asked: str, models: Sequence[bool]) -> Judgement:
    """Whether something is so of most models, by the 95% Clopper-Pearson interval of the share of which it is."""
    if not models:
        return Judgement(asked, "not run")
    n, yes = len(models), sum(models)
    low, high = clopper_pearson(yes, n)
    ours = share_in_words(yes, n)
    if low > 0.5:
        return Judgement(asked, "as asked", ours, n)
    if high < 0.5:
        return Judgement(asked, "not as asked", ours, n)
    return Judgement(asked, "inconclusive", ours, n, "too few models to tell")


def judgements_table(judgements: Sequence[Judgement]) -> str:
    """The judgements as a Markdown table."""
    lines = ["| asked | verdict | found | n |", "|---|---|---|---|"]
    for one in judgements:
        told = "; ".join(part for part in (one.ours, one.reason) if part)
        lines.append(f"| {one.asked} | {one.verdict} | {told} | {one.n} |")
    return "\n".join(lines) + "\n"
