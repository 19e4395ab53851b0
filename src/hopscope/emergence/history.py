"""Records of emergence: a circuit over all checkpoints (`emergence.json`), and role maps over time."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8

from hopscope.circuits.checks.card import Patterns
from hopscope.circuits.circuit import Circuit
from hopscope.emergence.timing import Crossing, Order, Plateau
from hopscope.model.role_maps import RoleMaps
from hopscope.records import RecordFormat, plain
from hopscope.training.metrics import Array


@dataclass(frozen=True)
class PathHistory:
    """One path over the checkpoints.

    Attributes:
        layer, head: number of the layer, and of the head in it, from 1.
        query, key: the role that attends, and the role that is attended to.
        hop: the hop in whose colour the path is drawn; see `timing.hop_of`.
        attention: mean weight along the path, by checkpoint.
        foremost: share of queries whose largest weight is on the path's key, by checkpoint.
        change: rise of the loss when the path is ablated, by checkpoint.
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

    def __str__(self) -> str:
        return f"layer {self.layer} head {self.head}: {self.query} -> {self.key}"


@dataclass(frozen=True)
class Emergence:
    """One model's circuit over all checkpoints; `save` writes it as `emergence.json`, `load` reads it.

    Attributes:
        run: content hash of the run.
        model: hash of the model.
        number: the model's number within the run, from 0.
        seed: the seed that the model was trained from.
        hops, chains: D and N.
        layers, heads: number of layers, and of heads per layer.
        total_steps: number of steps of the whole training.
        steps_per_epoch: updates in an epoch.
        sequences: number of sequences that the losses were measured on.
        data_seed: the seed of these sequences.
        steps: the steps of the checkpoints that were read; fields by checkpoint have one value for each of them.
        losses: mean squared error, by checkpoint.
        partial_losses: mean squared error, by checkpoint and target hop.
        paths: the circuit's paths.
        learned: for each target hop, when its partial loss on these sequences falls below 0.5 (at N = 4; see
            `training.metrics.learned_below`).
        order: the order in which the hops emerge; see `hopscope.emergence.timing`.
        plateau: the plateau, from the metrics of training.
        circuit: losses of the circuit that is followed, from the circuit's own record.
        asked: the target hops, which are the hops in the losses.
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
    steps: tuple[int, ...]
    losses: tuple[float, ...]
    partial_losses: tuple[tuple[float, ...], ...]
    paths: tuple[PathHistory, ...]
    learned: tuple[Crossing, ...]
    order: Order
    plateau: Plateau
    circuit: dict[str, Any]
    asked: tuple[int, ...]

    def __str__(self) -> str:
        """Return when every path crossed 0.5, the hops and the plateau, as `hopscope emergence` prints them."""
        heading = f"crosses 0.5 at step (95%), epoch of {self.steps_per_epoch} steps"
        lines = [f"{'path':<34} {'attention':>9}  {'without it':>10}  {heading}"]
        for path in self.paths:
            step, low, high = path.crossing.step, path.crossing.low, path.crossing.high
            when = _step(step)
            if step is not None:
                when += f" ({_step(low, '...')} to {_step(high, '...')}), {step / self.steps_per_epoch:.1f}"
            lines.append(f"{path!s:<34} {path.attention[-1]:>9.3f}  {path.change[-1]:>+10.3f}  {when}")
        hops = (f"x{hop} {_step(step)}" for hop, step in enumerate(self.order.emerged, start=1))
        lines.append(f"delivered by the paths that have crossed 0.5 by then: {', '.join(hops)}")
        if self.chains == 2:
            lines.append("with two chains, attention to both alike is 0.5 and may cross it by chance")
        left, learned = _step(self.plateau.left), ", ".join(map(_step, self.plateau.learned))
        lines.append(f"plateau at {self.plateau.level:g} left at step {left}; hops learned at step {learned}")
        return "\n".join(lines)

    def follows(self, circuit: Circuit, patterns: Patterns = "own") -> bool:
        """Whether the paths are those of this circuit (for `imposed`, of its Appendix E circuit), in the same order."""
        own = [(path.layer, path.head, path.query, path.key) for path in self.paths]
        return own == circuit.named_paths(patterns)

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain values."""
        return {**_FORMAT.named, **plain(self)}

    def save(self, path: Path) -> None:
        """Write the record, atomically."""
        _FORMAT.write(path, self, self.run)

    @classmethod
    def load(cls, path: Path) -> Emergence:
        """Read a record; an `InputError` is raised if it is missing, damaged or of another kind."""
        return _FORMAT.read(path)


def _step(step: float | None, missing: str = "never") -> str:
    return missing if step is None else f"{step:.0f}"


STEPS_PER_EPOCH = 8
"""Updates in an epoch, the paper's unit: transformer D's 6,400 steps are 800 epochs (Section 9.1)."""

_FORMAT = RecordFormat(
    Emergence, "hopscope emergence", "the record of an emergence (`hopscope emergence RUN` makes one)"
)


@dataclass(frozen=True)
class MapsOverTime:
    """Role maps of every head over the checkpoints, the contents of `emergence-maps.json`.

    Attributes:
        roles: names of the roles, by number.
        layers, heads: number of layers, and of heads per layer.
        steps: the steps of the frames.
        frames: a base64 text for each step, with a byte for each weight. The axes are layer, head, same chain and then
            other chains, query, key.
    """

    roles: tuple[str, ...]
    layers: int
    heads: int
    steps: tuple[int, ...]
    frames: tuple[str, ...]

    @classmethod
    def of(cls, steps: Sequence[int], maps: Sequence[RoleMaps], roles: Sequence[str]) -> MapsOverTime:
        """Make the record from the role maps of one model at these steps."""
        # Axes: layer, head, same chain or another, query, key.
        whole = [torch.stack((role_maps.same[0], role_maps.other[0]), dim=2) for role_maps in maps]
        weights = [(both.clamp(0, 1) * 255).round().to(torch.uint8).numpy(force=True) for both in whole]
        frames = tuple(base64.b64encode(frame.tobytes()).decode() for frame in weights)
        layers, heads = whole[0].shape[:2]
        return cls(tuple(roles), layers, heads, tuple(steps), frames)

    @property
    def weights(self) -> UInt8[Array, "step layer head which query key"]:
        """The maps of all frames, in units of 1/255."""
        shape = len(self.steps), self.layers, self.heads, 2, len(self.roles), len(self.roles)
        return np.frombuffer(b"".join(map(base64.b64decode, self.frames)), np.uint8).reshape(shape)


MAPS_OVER_TIME = RecordFormat(
    MapsOverTime, "hopscope maps over time", "role maps over time (`hopscope emergence RUN` makes them)"
)
