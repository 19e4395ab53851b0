"""Role maps of every head over training: `emergence-maps.json`, made for a slider over time.

    schema   1
    kind     "hopscope maps over time"
    roles    names of the 2D + 1 roles of a chain, in the order of both axes of a map
    layers   of the model
    heads    a layer
    steps    of the frames
    frames   one text a step: base64 of layers x heads x 2 x roles x roles bytes, in that order, the last axis fastest.
             The axis of 2 is own chain, then all other chains together; then query role, then key role. A byte b is a
             mean attention weight of b / 255.

A reader in JavaScript: `Uint8Array.from(atob(frame), c => c.charCodeAt(0))`; in Python: `base64.b64decode(frame)`.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.role_maps import RoleMaps
from hopscope.errors import InputError
from hopscope.files import read_json, write_json

SCHEMA = 1
KIND = "hopscope maps over time"


@dataclass(frozen=True)
class MapsOverTime:
    """Fields as in `emergence-maps.json`, above."""

    roles: tuple[str, ...]
    layers: int
    heads: int
    steps: tuple[int, ...]
    frames: tuple[str, ...]

    @classmethod
    def of(cls, steps: Sequence[int], maps: Sequence[RoleMaps], roles: Sequence[str]) -> MapsOverTime:
        """The maps of one model at so many steps."""
        frames = []
        for one in maps:
            both = torch.stack((one.same[0], one.other[0]), dim=2)  # layer head which query key
            weights = (both.clamp(0, 1) * 255).round().to(torch.uint8)
            frames.append(base64.b64encode(weights.cpu().numpy().tobytes()).decode())
        layers, heads = maps[0].same.shape[1:3]
        return cls(tuple(roles), layers, heads, tuple(steps), tuple(frames))

    def frame(self, number: int) -> Float[Tensor, "layer head which role role"]:
        """The maps of frame `number`, from 0, to within 1/510."""
        data = bytearray(base64.b64decode(self.frames[number], validate=True))
        weights = torch.frombuffer(data, dtype=torch.uint8).float() / 255
        return weights.view(self.layers, self.heads, 2, len(self.roles), len(self.roles))

    def save(self, path: Path) -> None:
        """Write the file, atomically."""
        write_json(path, {"schema": SCHEMA, "kind": KIND, **asdict(self)})

    @classmethod
    def load(cls, path: Path) -> MapsOverTime:
        """Read the file.

        Raises:
            InputError: it is missing, damaged or something else.
        """
        values: Any = read_json(path, "role maps over time (`hopscope emergence RUN` makes them)")
        if not isinstance(values, dict) or values.get("kind") != KIND or values.get("schema") != SCHEMA:
            raise InputError(f"{path} holds no role maps over time that this hopscope reads; it was left untouched")
        try:
            maps = cls(
                tuple(values["roles"]),
                values["layers"],
                values["heads"],
                tuple(values["steps"]),
                tuple(values["frames"]),
            )
            if len(maps.steps) != len(maps.frames):
                raise ValueError("steps and frames differ in number")
            for number in range(len(maps.frames)):
                maps.frame(number)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"{path} is damaged ({error}); it was left untouched") from None
        return maps
