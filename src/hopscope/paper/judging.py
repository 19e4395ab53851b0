"""What the judges share: bounds on shares, verdicts over models, the circuits that decide, numbers in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from hopscope.circuits.circuit_parts import StrictReading
from hopscope.paper.claims import Verdict
from hopscope.paper.models import MAX_LOSS, Studied
from hopscope.words import counted

LEAST_MODELS = 3
"""Fewer models, or trained runs, do not carry a verdict of `reproduced`. The paper has three: A, B and C."""

RUN_GONE = "whose run is not there"
"""Said of a model whose loss after training is therefore not known."""

GIVEN_UP = "whose search was given up"
ANOTHER_THRESHOLD = "searched at another threshold"
UNSEARCHED = "whose circuit was not looked for"

_NOTHING: Mapping[str, str] = {
    ANOTHER_THRESHOLD: f"searched at another threshold than {MAX_LOSS:g}",
    UNSEARCHED: "no circuit was looked for",
}
"""Why a claim is not run if there are only such models."""

ModelVerdict = Literal["meets", "fails", "open"]
"""What one model says about a claim; `open` where an interval lies across the threshold."""


def below(interval: tuple[float, float], threshold: float) -> ModelVerdict:
    """Whether a loss with this interval lies below the threshold."""
    low, high = interval
    return "meets" if high < threshold else "fails" if low >= threshold else "open"


def every_model(
    outcomes: Sequence[ModelVerdict],
    least: int = LEAST_MODELS,
    open_ones: str = "with an interval across the threshold",
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
    """`1 model searched at another threshold, 2 models whose search was given up`: how many models with each."""
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


@dataclass(frozen=True)
class Readings:
    """What the records of some models say of their circuits. A model without one is not left out: those that have one
    would stand for all.

    Attributes:
        read: the models with a strict circuit at the paper's threshold, each with that circuit.
        missing: how many models have none, though it was searched for to the end.
        unjudged: why the record of each other model decides nothing.
    """

    read: tuple[tuple[Studied, StrictReading], ...]
    missing: int
    unjudged: tuple[str, ...]

    @classmethod
    def of(cls, models: Sequence[Studied]) -> Readings:
        """The readings of models that are all asked the same."""
        unjudged = [_unjudged(model) for model in models]
        judged = [model for model, why in zip(models, unjudged, strict=True) if not why]
        read = tuple((model, model.strict) for model in judged if model.strict)
        return cls(read, len(judged) - len(read), tuple(why for why in unjudged if why))

    @property
    def models(self) -> int:
        """How many models there are in all."""
        return self.judged + len(self.unjudged)

    @property
    def judged(self) -> int:
        """How many models are known to have a circuit or to have none."""
        return len(self.read) + self.missing

    @property
    def nothing(self) -> str:
        """Why these models say nothing; empty if they say something."""
        if self.judged or GIVEN_UP in self.unjudged:
            return ""
        return next((why for what, why in _NOTHING.items() if what in self.unjudged), _NOTHING[UNSEARCHED])

    @property
    def aside(self) -> str:
        """The models without a circuit that is known, in words, to be added to what the others say."""
        lost = [f"no circuit in {counted(self.missing, 'model')}"] if self.missing else []
        return "".join(f"; {one}" for one in (*lost, by_reason(self.unjudged)) if one)


def _unjudged(model: Studied) -> str:
    """Why the record of a model's circuit decides nothing; empty if it decides something."""
    if model.circuit is None:
        return UNSEARCHED
    if model.at_another_threshold:
        return ANOTHER_THRESHOLD
    if model.given_up:
        return GIVEN_UP
    return ""
