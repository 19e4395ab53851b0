"""The circuits by which a claim about models is judged, and the models whose circuit is not known.

If a model were left out for lack of a circuit, those that have one would stand for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hopscope.circuits.circuit_parts import StrictReading
from hopscope.paper.judging import BAR, by_reason
from hopscope.paper.models import Studied
from hopscope.words import counted

GIVEN_UP = "whose search was given up"
ANOTHER_BAR = "searched at another bar"
UNSEARCHED = "whose circuit was not looked for"

_NOTHING: Mapping[str, str] = {
    ANOTHER_BAR: f"searched at another bar than {BAR:g}",
    UNSEARCHED: "no circuit was looked for",
}
"""Why a claim is not run if there are only such models."""


@dataclass(frozen=True)
class Readings:
    """What the records of some models say of their circuits.

    Attributes:
        read: the models with a strict circuit at the paper's bar, each with that circuit.
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
    if model.at_another_bar:
        return ANOTHER_BAR
    if model.given_up:
        return GIVEN_UP
    return ""
