"""Losses in a certificate: with their intervals, the levels they lie between, and losses without a row or a key."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.certificate.part import tidy
from hopscope.circuits.evaluate.bootstrap import Interval, intervals


class Measured(NamedTuple):
    """A mean over sequences with its 95% interval, rounded for people."""

    mean: float
    interval: Interval

    @classmethod
    def of(cls, values: Float[Tensor, " sequence"], seed: int) -> Measured:
        """The mean of values by sequence; the interval is by the bootstrap, from `seed`."""
        ((low, high),) = intervals(values[None], seed)
        return cls(tidy(float(values.mean())), (tidy(low), tidy(high)))


class Levels(NamedTuple):
    """The losses of the model (`full`) and of nothing, between which a circuit's lies, and its own."""

    full: float
    nothing: float
    own: float

    def faithfulness(self, loss: float) -> float:
        """How far a loss goes from that of nothing (0) to that of the model (1)."""
        return (self.nothing - loss) / max(self.nothing - self.full, 1e-12)

    def at(self, faithfulness: float) -> float:
        """The loss that goes this far."""
        return self.nothing - faithfulness * (self.nothing - self.full)


class Lost(NamedTuple):
    """Losses by sequence without a row (or key), and those of the program it is judged in, on the same sequences.

    Attributes:
        without: the losses without it.
        own: the losses with it.
        due: how much the mean must rise at least for it to be needed.
    """

    without: Float[Tensor, " sequence"]
    own: Float[Tensor, " sequence"]
    due: float

    @property
    def rise(self) -> Float[Tensor, " sequence"]:
        """How much the loss rises without the row."""
        return self.without - self.own
