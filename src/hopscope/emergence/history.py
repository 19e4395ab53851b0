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
    order        `emerged`: for hops 1 to D, the step from which on the paths that have emerged deliver it; `certainty`
                 that each comes after the one before (see `order.py`)
    plateau      from the metrics of training: level, reached, left, learned
    measures     progress measures: name, heads, hop, values by checkpoint, and `settled`, the step from which on it
                 stays above 0.5
    circuit      losses of the circuit at the end, as its own record has them
    troubles     checkpoints that could not be used, a sentence each; empty where all is well

Crossings have `step` (null for never), `low` and `high` (95%, sequences resampled) and `between`, the checkpoints on
either side. Steps are updates; an epoch has `steps_per_epoch` of them.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from hopscope.emergence.crossing import Crossing
from hopscope.emergence.order import Order
from hopscope.emergence.plateau import Plateau
from hopscope.errors import InputError
from hopscope.files import read_json, write_json

SCHEMA = 1
"""Of emergence.json; another is refused."""

KIND = "hopscope emergence"


@dataclass(frozen=True)
class PathHistory:
    """One path over the checkpoints. Fields as in `emergence.json`, above."""

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

    def __str__(self) -> str:
        return f"layer {self.layer} head {self.head}: {self.query} -> {self.key}"


@dataclass(frozen=True)
class MeasureHistory:
    """One progress measure over the checkpoints."""

    name: str
    heads: tuple[tuple[int, int], ...]
    hop: int | None
    values: tuple[float, ...]
    settled: float | None


@dataclass(frozen=True)
class Emergence:
    """One model's circuit over all checkpoints. Fields as in `emergence.json`, above."""

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

    def epoch(self, step: int | float | None) -> float | None:
        """A step in epochs; None stays None."""
        return None if step is None else step / self.steps_per_epoch

    def to_json(self) -> dict[str, Any]:
        """The record as plain values."""
        return {"schema": SCHEMA, "kind": KIND, **asdict(self)}

    def save(self, path: Path) -> None:
        """Write the record, atomically."""
        write_json(path, self.to_json())

    @classmethod
    def load(cls, path: Path) -> Emergence:
        """Read a record.

        Raises:
            InputError: the file is missing, damaged, newer, or no record of an emergence.
        """
        values = read_json(path, "the record of an emergence (`hopscope emergence RUN` makes one)")
        try:
            return cls.from_json(values)
        except InputError as error:
            raise InputError(f"{path}: {error}; it was left untouched") from None

    @classmethod
    def from_json(cls, values: Any) -> Emergence:
        """The emergence that a record describes.

        Raises:
            InputError: the first thing that is wrong.
        """
        if not isinstance(values, dict) or values.get("kind") != KIND:
            raise InputError("this is not the record of an emergence")
        if values.get("schema") != SCHEMA:
            raise InputError(
                f"the record has schema {values.get('schema')!r} and this hopscope reads {SCHEMA}; update hopscope, "
                "or measure anew"
            )
        inner = {name: value for name, value in values.items() if name not in ("schema", "kind")}
        history: Emergence = _read(cls, inner, "the record")
        _check_lengths(history)
        return history


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


def _read(kind: Any, value: Any, what: str) -> Any:
    """`value` as `kind`: a dataclass of this record, a tuple, a number, text or None.

    Raises:
        InputError: it is something else.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _read_record(kind, value, what)
    if origin in (Union, types.UnionType):
        return None if value is None else _read(next(one for one in inner if one is not type(None)), value, what)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise InputError(f"{what} must be a list, got {value!r}")
        kinds = [inner[0]] * len(value) if inner[-1] is Ellipsis else list(inner)
        if len(kinds) != len(value):
            raise InputError(f"{what} must have {len(kinds)} entries, got {len(value)}")
        return tuple(_read(one, part, what) for one, part in zip(kinds, value, strict=True))
    if origin is dict:
        if not isinstance(value, dict):
            raise InputError(f"{what} must be an object, got {value!r}")
        return value
    allowed = (int, float) if kind is float else kind
    if isinstance(value, bool) or not isinstance(value, allowed):
        raise InputError(f"{what} must be {'a number' if kind is not str else 'text'}, got {value!r}")
    return float(value) if kind is float else value


def _read_record(kind: Any, value: Any, what: str) -> Any:
    if not isinstance(value, Mapping):
        raise InputError(f"{what} must be an object, got {value!r}")
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    missing = [name for name in names if name not in value]
    unknown = sorted(set(value) - set(names))
    if missing or unknown:
        raise InputError(f"{what} lacks {', '.join(missing) or 'nothing'} and should not have {', '.join(unknown)}")
    return kind(**{name: _read(hints[name], value[name], name) for name in names})
