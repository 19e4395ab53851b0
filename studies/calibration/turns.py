"""Intermittent attention: a row attends to its key for some questions, and for the rest to the other member of the
key's pair, from which it reads the same.

By which symbols there are: each sequence has its turn. So the model does as before, and a circuit that names the key
alone is right for some of the questions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

import hopscope as hs
from studies.calibration.altered import Altered, Known
from studies.calibration.backup import Backup, Merging, Shared, merging


@dataclass(frozen=True)
class Turns:
    """A row that attends elsewhere at times.

    Attributes:
        path: the path that it takes for some questions. The key is a member of a pair in which the query is not.
        share: the share of the sequences in which it does.
        seed: the seed of the direction along which sequences are distinguished.
    """

    path: hs.AttentionPath
    share: float
    seed: int


def by_turns(known: Known, turns: Turns) -> Altered:
    """A known model in which one row attends elsewhere at times.

    Args:
        known: the known model, on chains under a causal mask.
        turns: the row, and how often it attends where.
    """
    moved, apart = Backup(turns.path, 0.0), distinguished_by(known, turns.path.layer, turns.share, turns.seed)
    return Altered(known.transformer, lambda layer, block: _Turned(block, merging(known, moved, layer), apart))


class Distinguished(NamedTuple):
    """What distinguishes sequences: the first position, which attends to nothing but itself, along a direction."""

    direction: Float[Tensor, " d_model"]
    least: float

    def __call__(self, normed: Float[Tensor, "1 sequence pos d_model"]) -> Bool[Tensor, "sequence 1 1"]:
        """Whether a sequence is of the second kind."""
        return (normed[0, :, 0] @ self.direction >= self.least)[:, None, None]


@torch.no_grad()
def distinguished_by(known: Known, layer: int, share: float, seed: int) -> Distinguished:
    """A way to distinguish sequences in a layer, by their first symbols, so that a share of them is of the first kind.

    Args:
        known: the known model, under a causal mask.
        layer: the layer, from 0.
        share: of the sequences, those of the first kind.
        seed: the seed of the direction.
    """
    model, batch = known.transformer, hs.sample(known.problem, 512, torch.Generator().manual_seed(seed))
    stream = model.run(model.embed(batch.inputs[None]), stop=layer)
    block: Any = model.blocks[layer]
    first = block.attention_norm(stream)[0, :, 0]
    direction = torch.randn(first.shape[1], generator=torch.Generator().manual_seed(seed))
    return Distinguished(direction, float((first @ direction).quantile(share)))


class _Turned(Shared):
    """A block in which the row of some queries reads its key at another place in some sequences."""

    def __init__(self, block: Any, merging: Merging, apart: Distinguished) -> None:
        super().__init__(block, merging)
        self.apart = apart

    def pattern(self, normed: Float[Tensor, "1 sequence pos d_model"]) -> Float[Tensor, "sequence head query key"]:
        """The pattern of the block's heads; or, in sequences of the second kind, with the key's weight elsewhere."""
        usual: Tensor = self.attention.pattern(normed, normed)[0]
        return torch.where(self.apart(normed)[..., None], super().pattern(normed), usual)
