"""What the record of a circuit is made of: paths with their losses and uses, helper rows, and other circuits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hopscope.circuits.evaluate.bootstrap import Interval
from hopscope.errors import InputError
from hopscope.problem.paths import AttentionPath, Feed


@dataclass(frozen=True)
class CircuitPath:
    """An attention path of a circuit, and its numbers.

    Attributes:
        path: the attention path.
        form: what replaces the row in the imposed circuit: `one_hot`, `mixture`, `mean`, `positional` or `keep`.
        weight: the model's mean attention along this path.
        ablation_mse: loss of the imposed circuit without this path.
        interval: 95% interval of `ablation_mse`.
        natural_mse: loss of the natural circuit without this path: without this key where the row attends to others
            too, else without the whole row.
        natural_interval: 95% interval of `natural_mse`.
        feeds: what reads it, the strongest use first.
    """

    path: AttentionPath
    form: str
    weight: float
    ablation_mse: float
    interval: Interval
    natural_mse: float
    natural_interval: Interval
    feeds: tuple[Feed, ...] = ()

    def __post_init__(self) -> None:
        for low, high in (self.interval, self.natural_interval):
            if low > high:
                raise InputError(f"an interval must be its lowest and highest number, got {low}, {high}")

    def uses(self, roles: Sequence[str]) -> tuple[str, ...]:
        """Its uses in words, the strongest first; heads of one layer that read it in the same way are one use."""
        return tuple(dict.fromkeys(feed.describe(roles) for feed in self.feeds))


@dataclass(frozen=True)
class Helper:
    """A row in use that attends to no other role of its own chain, or for which that is not needed.

    Attributes:
        layer: number of the layer, from 1.
        head: number of the head in its layer, from 1.
        query: the role that attends.
        natural_mse: loss of the natural circuit without this row.
        natural_interval: 95% interval of `natural_mse`.
    """

    layer: int
    head: int
    query: str
    natural_mse: float
    natural_interval: Interval


@dataclass(frozen=True)
class OtherCircuit:
    """Another circuit that the search ended in.

    Attributes:
        paths: its paths.
        mse: its loss with its patterns imposed.
        orders: names of the search orders that ended in it.
        overlap: the paths that it shares with the first circuit, as a share of all paths of either.
    """

    paths: tuple[AttentionPath, ...]
    mse: float
    orders: tuple[str, ...]
    overlap: float
