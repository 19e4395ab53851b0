"""Role maps of every head over training: `emergence-maps.json`, made for a slider over time.

    schema   1
    kind     "hopscope maps over time"
    roles    names of the 2D + 1 roles of a chain, in the order of both axes of a map
    layers   how many layers the model has
    heads    how many heads each layer has
    steps    the steps of the frames
    frames   one text a step: base64 of layers x heads x 2 x roles x roles bytes, in that order, the last axis fastest.
             The axis of 2 is own chain, then all other chains together; then query role, then key role. A byte b is a
             mean attention weight of b / 255.

A reader in JavaScript: `Uint8Array.from(atob(frame), c => c.charCodeAt(0))`; in Python: `base64.b64decode(frame)`.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.evaluate.role_maps import RoleMaps
from hopscope.errors import InputError
from hopscope.records import RecordFormat


@dataclass(frozen=True)
class MapsOverTime:
    """Role maps of every head over the checkpoints; `save` writes them as `emergence-maps.json`, `load` reads them.

    Attributes:
        roles: names of the roles, by number.
        layers: how many layers the model has.
        heads: how many heads each layer has.
        steps: the steps of the frames.
        frames: one for each step, as base64: one byte for each weight, layer by layer, head by head, of the same chain
            and then of others, query by query, key by key; `frame` reads them.
    """

    roles: tuple[str, ...]
    layers: int
    heads: int
    steps: tuple[int, ...]
    frames: tuple[str, ...]

    @classmethod
    def of(cls, steps: Sequence[int], maps: Sequence[RoleMaps], roles: Sequence[str]) -> MapsOverTime:
        """The file's contents from the role maps of one model at some steps."""
        frames = []
        for one in maps:
            both = torch.stack((one.same[0], one.other[0]), dim=2)  # layer head which query key
            weights = (both.clamp(0, 1) * 255).round().to(torch.uint8)
            frames.append(base64.b64encode(weights.cpu().numpy().tobytes()).decode())
        layers, heads = maps[0].same.shape[1:3]
        return cls(tuple(roles), layers, heads, tuple(steps), tuple(frames))

    def frame(self, number: int) -> Float[Tensor, "layer head which role role"]:
        """The maps of frame `number` (from 0), exact to within 1/510."""
        data = bytearray(base64.b64decode(self.frames[number], validate=True))
        weights = torch.frombuffer(data, dtype=torch.uint8).float() / 255
        return weights.view(self.layers, self.heads, 2, len(self.roles), len(self.roles))

    def __post_init__(self) -> None:
        size = self.layers * self.heads * 2 * len(self.roles) ** 2
        if len(self.steps) != len(self.frames):
            raise InputError(f"there must be a frame for each of {len(self.steps)} steps, got {len(self.frames)}")
        for step, frame in zip(self.steps, self.frames, strict=True):
            try:
                held = len(base64.b64decode(frame, validate=True))
            except ValueError:
                raise InputError(f"the frame of step {step} is not base64") from None
            if held != size:
                raise InputError(f"the frame of step {step} must hold {size} bytes, got {held}")

    def save(self, path: Path, run: str = "") -> None:
        """Write the file, atomically, marked with the content hash of the run that it belongs to."""
        _FORM.write(path, self, run)

    @classmethod
    def load(cls, path: Path) -> MapsOverTime:
        """Read the file.

        Raises:
            InputError: the file is missing, damaged or something else.
        """
        return _FORM.read(path)


_FORM = RecordFormat(
    MapsOverTime, "hopscope maps over time", "role maps over time (`hopscope emergence RUN` makes them)"
)
