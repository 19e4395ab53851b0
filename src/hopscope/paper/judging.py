"""What the judges of all sections share: bounds on shares, verdicts over models, and how numbers are put into words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from hopscope.paper.claims import Verdict
from hopscope.words import counted

LEAST_MODELS = 3
"""Fewer models, or trained runs, do not carry a verdict of `reproduced`. The paper has three: A, B and C."""

BAR = 0.05
"""A loss counts as low below this (Appendix E), whatever the bar a search was given."""

RUN_GONE = "whose run is not there"
"""Said of a model whose loss after training is therefore not known."""

ModelVerdict = Literal["meets", "fails", "open"]
"""What one model says about a claim; `open` where an interval lies across the bar."""


def below(interval: tuple[float, float], bar: float) -> ModelVerdict:
    """Whether a loss with this interval lies below the bar."""
    low, high = interval
    return "meets" if high < bar else "fails" if low >= bar else "open"


def every_model(
    outcomes: Sequence[ModelVerdict],
    least: int = LEAST_MODELS,
    open_ones: str = "with an interval across the bar",
    unjudged: Sequence[str] = (),
) -> tuple[Verdict, str]:
    """The verdict on a claim that all models must meet, and why it is inconclusive where it is.

    One model that fails refutes it, however few there are. `open_ones` says what is wrong with models that are open;
    `unjudged` says for every further model why it is not judged: `whose search was given up`.
    """
    if not outcomes and not unjudged:
        return "not run", ""
    if "fails" in outcomes:
        return "not reproduced", ""
    if "open" in outcomes or unjudged:
        return "inconclusive", by_reason([open_ones] * outcomes.count("open") + list(unjudged))
    if len(outcomes) < least:
        return "inconclusive", f"too few models: {len(outcomes)}, and the rule asks for {least}"
    return "reproduced", ""


def by_reason(reasons: Sequence[str]) -> str:
    """`1 model searched at another bar, 2 models whose search was given up`: how many models with each."""
    return ", ".join(f"{counted(number, 'model')} {reason}" for reason, number in Counter(reasons).items())


def ranged(values: Sequence[float]) -> str:
    """Lowest and highest value in words: `0.17 to 0.89`."""
    return f"{min(values):.2f} to {max(values):.2f}" if values else "-"


def losses(values: Sequence[float | None]) -> str:
    """Losses in words: `0.012, diverged`."""
    return ", ".join("diverged" if value is None else f"{value:.4f}" for value in values)


def spans(intervals: Sequence[tuple[float, float]]) -> str:
    """Intervals in words: `0.007 to 0.009, 0.01 to 0.02`."""
    return ", ".join(f"{low:.3g} to {high:.3g}" for low, high in intervals)
