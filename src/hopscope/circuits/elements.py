"""What a circuit is made of: paths with their numbers, what each is good for, helper rows, and other circuits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hopscope.circuits.bootstrap import Interval
from hopscope.errors import InputError
from hopscope.theory.path import AttentionPath

Into = Literal["query", "key", "value", "answer"]
"""What a path can feed: the query, key or value of a later path, or the answer itself."""


@dataclass(frozen=True)
class Feed:
    """One use of what a path brings.

    Attributes:
        into: what it goes into.
        reader: the later path; None for the answer.
        change: rise of the loss when this use alone is cut.
        attention: fall of the later path's mean attention when this use alone is cut; 0 where it reads the value.
    """

    into: Into
    reader: AttentionPath | None = None
    change: float = 0.0
    attention: float = 0.0

    def describe(self, roles: Sequence[str]) -> str:
        """`K of layer 5 (x0? -> >x1)`, or `the answer`."""
        if self.reader is None:
            return "the answer"
        layer, _, query, key = self.reader.names(roles)
        return f"{self.into[0].upper()} of layer {layer} ({query} -> {key})"


@dataclass(frozen=True)
class CircuitPath:
    """An attention path of a circuit, and its numbers.

    Attributes:
        path: which.
        form: `one_hot`, `mixture`, `mean`, `positional` or `keep`: what stands for the row in the imposed circuit.
        weight: the model's mean attention along this path.
        ablation_mse: loss of the imposed circuit without this path.
        interval: of `ablation_mse`, 95%.
        natural_mse: loss of the natural circuit without this path: without its row, or, where that has several keys,
            without this one.
        natural_interval: of `natural_mse`, 95%.
        feeds: what it is good for, the strongest use first.
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
        """What it feeds, in words, the strongest first; two heads that read it alike are one use."""
        return tuple(dict.fromkeys(feed.describe(roles) for feed in self.feeds))


@dataclass(frozen=True)
class Helper:
    """A row in use that attends to no other role of its own chain.

    Attributes:
        layer: from 1.
        head: from 1.
        query: role that attends.
        natural_mse: loss of the natural circuit without it.
        natural_interval: of `natural_mse`, 95%.
    """

    layer: int
    head: int
    query: str
    natural_mse: float
    natural_interval: Interval


@dataclass(frozen=True)
class OtherCircuit:
    """Another circuit the search ended in.

    Attributes:
        paths: of it.
        mse: its loss, patterns imposed.
        orders: of the search that ended there.
        overlap: paths it shares with the first circuit, as a share of all paths of either.
    """

    paths: tuple[AttentionPath, ...]
    mse: float
    orders: tuple[str, ...]
    overlap: float
