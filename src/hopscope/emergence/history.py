"""The record of an emergence: `emergence.json`, one model and its circuit over all checkpoints.

    schema       of this record, 1
    kind         "hopscope emergence"
    run          content hash of the run; `model` is the model's own hash, `number` and `seed` which of the run it is
    hops, chains, layers, heads, total_steps, steps_per_epoch   of the run
    sequences, data_seed, ablation   how it was measured
    steps        of the checkpoints that were read; everything "by checkpoint" goes with them
    losses       mean squared error by checkpoint; `partial_losses` by checkpoint and hop asked for
    paths        layer and head from 1, query and key as roles, hop (see `order.hop_of`); by checkpoint: `attention`
                 (mean weight), `foremost` (share of queries whose largest weight it is), `change` (rise of the loss
                 without the path) with `change_interval`; `crossing` of 0.5 by the attention
    learned      for each hop asked for, the crossing of 0.5 by its partial loss on these sequences
    order        `emerged`: for hops 1 to D, the step at which the paths that have crossed 0.5 by then, each at some
                 time, deliver it; `certainty` that each comes after the one before (see `order.py`)
    plateau      from the metrics of training: level, reached, left, learned
    measures     progress measures: name, heads, hop, values by checkpoint, and `settled`, the step from which on it
                 stays above 0.5
    circuit      losses of the circuit at the end, as its own record has them
    asked        hops that losses are of
    troubles     checkpoints that could not be used, a sentence each; empty where all is well

Crossings have `step` (null for never), `low` and `high` (95%, sequences resampled) and `between`, the checkpoints on
either side. Steps are updates; an epoch has `steps_per_epoch` of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from hopscope.circuits.record import Circuit
from hopscope.emergence.crossing import LEVEL, Crossing
from hopscope.emergence.order import Order
from hopscope.emergence.plateau import Plateau
from hopscope.errors import InputError
from hopscope.records import plain, read_record, write_record

SCHEMA = 1
"""Of emergence.json; another is refused."""

KIND = "hopscope emergence"


@dataclass(frozen=True)
class PathHistory:
    """One path over the checkpoints; everything by checkpoint has a value for each.

    Attributes:
        layer: from 1.
        head: from 1.
        query: role that attends.
        key: role that is attended to.
        hop: that it serves, see `order.hop_of`.
        attention: mean weight, by checkpoint.
        foremost: share of queries whose largest weight it is, by checkpoint.
        change: rise of the loss without the path, by checkpoint.
        change_interval: of that, 95%.
        crossing: of 0.5 by the attention.
    """

    layer: int
    head: int
    query: str
    key: str
    hop: int
    attention: tuple[float, ...]
    foremost: tuple[float, ...]
    change: tuple[float, ...]
    change_interval: tuple[tuple[float, float], ...]
    crossing: Crossing

    @property
    def fell_back(self) -> bool:
        """Whether its attention was above 0.5 at a checkpoint and not above at a later one."""
        return any(one > LEVEL >= after for one, after in pairwise(self.attention))

    def __str__(self) -> str:
        return f"layer {self.layer} head {self.head}: {self.query} -> {self.key}"


@dataclass(frozen=True)
class MeasureHistory:
    """One progress measure over the checkpoints.

    Attributes:
        name: of the measure.
        heads: layer and head, from 1, of which it is.
        hop: of which it is; None where it is of none.
        values: by checkpoint.
        settled: the step from which on it stays above 0.5; None where it does not.
    """

    name: str
    heads: tuple[tuple[int, int], ...]
    hop: int | None
    values: tuple[float, ...]
    settled: float | None


@dataclass(frozen=True)
class Emergence:
    """One model's circuit over all checkpoints; `save` writes it as `emergence.json`, `load` reads it.

    Steps are updates; an epoch has `steps_per_epoch` of them.

    Attributes:
        run: content hash of the run.
        model: hash of the model.
        number: of it in its run, from 0.
        seed: it was trained from.
        hops: D.
        chains: N.
        layers: of the model.
        heads: a layer.
        total_steps: of the run.
        steps_per_epoch: of the run.
        sequences: on which it was measured.
        data_seed: these were drawn from.
        ablation: by which a path is taken away.
        steps: of the checkpoints that were read; everything by checkpoint goes with them.
        losses: mean squared error, by checkpoint.
        partial_losses: the same by checkpoint and hop asked for.
        paths: of the circuit.
        learned: for each hop asked for, the crossing of 0.5 by its partial loss on these sequences.
        order: in which the hops emerge, see `hopscope.emergence.order`.
        plateau: from the metrics of training.
        measures: of progress.
        circuit: losses of the circuit at the end, as its own record has them.
        troubles: checkpoints that could not be used, a sentence each.
        asked: hops that losses are of; empty in older records.

    Raises:
        InputError: something by checkpoint that has not a value for each.
    """

    run: str
    model: str
    number: int
    seed: int
    hops: int
    chains: int
    layers: int
    heads: int
    total_steps: int
    steps_per_epoch: int
    sequences: int
    data_seed: int
    ablation: str
    steps: tuple[int, ...]
    losses: tuple[float, ...]
    partial_losses: tuple[tuple[float, ...], ...]
    paths: tuple[PathHistory, ...]
    learned: tuple[Crossing, ...]
    order: Order
    plateau: Plateau
    measures: tuple[MeasureHistory, ...]
    circuit: dict[str, Any]
    troubles: tuple[str, ...]
    asked: tuple[int, ...] = ()

    @property
    def loss_hops(self) -> Sequence[int]:
        """The hops that losses are of. Older records do not say; they have the last so many, all or one."""
        return self.asked or range(self.hops - len(self.plateau.learned) + 1, self.hops + 1)

    def epoch(self, step: int | float | None) -> float | None:
        """A step in epochs; None stays None."""
        return None if step is None else step / self.steps_per_epoch

    def follows(self, circuit: Circuit) -> bool:
        """Whether its paths are those of this circuit, in the same order."""
        mine = [(one.layer, one.head, one.query, one.key) for one in self.paths]
        return mine == [one.path.names(circuit.roles) for one in circuit.paths]

    def to_json(self) -> dict[str, Any]:
        """The record as plain values."""
        return {"kind": KIND, "schema": SCHEMA, **plain(self)}

    def save(self, path: Path) -> None:
        """Write the record, atomically."""
        write_record(path, self, kind=KIND, schema=SCHEMA, run=self.run)

    @classmethod
    def load(cls, path: Path) -> Emergence:
        """Read a record.

        Raises:
            InputError: the file is missing, damaged, newer, or no record of an emergence.
        """
        return read_record(
            path, cls, kind=KIND, schema=SCHEMA, what="the record of an emergence (`hopscope emergence RUN` makes one)"
        )

    def __post_init__(self) -> None:
        _check_lengths(self)


def _check_lengths(history: Emergence) -> None:
    """See that everything by checkpoint has a value for each."""
    count = len(history.steps)
    curves: dict[str, tuple[Any, ...]] = {"losses": history.losses, "partial_losses": history.partial_losses}
    for number, path in enumerate(history.paths, start=1):
        for name in ("attention", "foremost", "change", "change_interval"):
            curves[f"{name} of path {number}"] = getattr(path, name)
    for number, measure in enumerate(history.measures, start=1):
        curves[f"values of measure {number}"] = measure.values
    for name, curve in curves.items():
        if len(curve) != count:
            raise InputError(f"{name} must have a value for each of {count} checkpoints, got {len(curve)}")
