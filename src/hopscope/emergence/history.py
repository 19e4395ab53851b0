"""The record of an emergence: `emergence.json`, one model and its circuit over all checkpoints.

    schema       version of this record, 1
    kind         "hopscope emergence"
    run          content hash of the run; `model` is the model's own hash, `number` and `seed` say which one it is
    hops, chains, layers, heads, total_steps, steps_per_epoch   those of the run
    sequences, data_seed, ablation   how it was measured
    steps        the steps of the checkpoints that were read; everything "by checkpoint" has one value for each
    losses       mean squared error by checkpoint; `partial_losses` by checkpoint and hop asked for
    paths        layer and head from 1, query and key as roles, hop (see `order.hop_of`); by checkpoint: `attention`
                 (mean weight), `foremost` (share of queries that put their largest weight on the key), `change` (rise
                 of the loss without the path) with `change_interval`; `crossing`, when the attention crosses 0.5
    learned      for each hop asked for, when its partial loss on these sequences falls below 0.5 (for other than four
                 chains see `training.metrics.learned_below`)
    order        `emerged`: for hops 1 to D, the step at which the paths that have crossed 0.5 by then, each at some
                 time, deliver it; `certainty` that each comes after the one before (see `order.py`)
    plateau      from the metrics of training: level, reached, left, learned
    measures     progress measures: name, heads, hop, values by checkpoint, and `settled`, the step from which on it
                 stays above 0.5
    circuit      losses of the circuit that is followed, as its own record has them
    asked        the hops that the losses are of
    troubles     a sentence for each checkpoint that could not be used; empty where all is well

Crossings have `step` (null for never), `low` and `high` (95%, sequences resampled) and `between`, the checkpoints on
either side. Steps are updates; an epoch has `steps_per_epoch` of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from hopscope.circuits.circuit import Circuit
from hopscope.emergence.crossing import LEVEL, Crossing
from hopscope.emergence.order import Order
from hopscope.emergence.plateau import Plateau
from hopscope.errors import InputError
from hopscope.records import RecordFormat, plain


@dataclass(frozen=True)
class PathHistory:
    """One path over the checkpoints; everything by checkpoint has a value for each.

    Attributes:
        layer: number of the layer, from 1.
        head: number of the head in its layer, from 1.
        query: the role that attends.
        key: the role that is attended to.
        hop: the hop that the path is drawn with, see `order.hop_of`.
        attention: mean weight along the path, by checkpoint.
        foremost: share of queries that put their largest weight on the path's key, by checkpoint.
        change: how much the loss rises without the path, by checkpoint.
        change_interval: 95% interval of `change`, by checkpoint.
        crossing: when the attention crosses 0.5.
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
        name: the measure's name.
        heads: layer and head, from 1, of the heads that it is taken of.
        hop: the hop that it is about; None if it is about none.
        values: the measure by checkpoint.
        settled: the step from which on it stays above 0.5; None if there is none.
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
        number: the model's number within the run, from 0.
        seed: the seed that the model was trained from.
        hops: D.
        chains: N.
        layers: how many layers the model has.
        heads: how many heads each layer has.
        total_steps: how many steps the model is trained for.
        steps_per_epoch: how many steps an epoch has.
        sequences: how many sequences it was measured on.
        data_seed: the seed that these were drawn from.
        ablation: how a path is taken away.
        steps: the steps of the checkpoints that were read; everything by checkpoint has one value for each.
        losses: mean squared error, by checkpoint.
        partial_losses: the same by checkpoint and hop asked for.
        paths: the circuit's paths.
        learned: for each hop asked for, when its partial loss on these sequences falls below 0.5 (at N = 4; see
            `training.metrics.learned_below`).
        order: the order in which the hops are delivered, see `hopscope.emergence.order`.
        plateau: the plateau, from the metrics of training.
        measures: the progress measures.
        circuit: losses of the circuit that is followed, as its own record has them.
        troubles: a sentence for each checkpoint that could not be used.
        asked: the hops that the losses are of; empty in older records.

    Raises:
        InputError: something by checkpoint does not have one value for each.
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
        """The hops that the losses are of. Older records do not say: theirs are the last ones, all hops or one."""
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
        return {**_FORM.named, **plain(self)}

    def save(self, path: Path) -> None:
        """Write the record, atomically."""
        _FORM.write(path, self, self.run)

    @classmethod
    def load(cls, path: Path) -> Emergence:
        """Read a record.

        Raises:
            InputError: the file is missing, damaged, newer, or no record of an emergence.
        """
        return _FORM.read(path)

    def __post_init__(self) -> None:
        _check_lengths(self)


_FORM = RecordFormat(Emergence, "hopscope emergence", "the record of an emergence (`hopscope emergence RUN` makes one)")


def _check_lengths(history: Emergence) -> None:
    """Check that everything by checkpoint has one value for each."""
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
