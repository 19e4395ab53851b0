"""Intermittent attention: a row attends to its key in some sequences, and to the other member of the key's pair in the
rest.

The row reads the same at both. The first symbol of a sequence decides which of the two the row attends to. The model
answers as before, and a circuit that names only the key is right for only some of the questions.
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
    """A row that attends to different positions in different sequences.

    Attributes:
        path: the path that the row takes in some sequences. The query must not be in the key's pair.
        share: the share of the sequences in which the row takes this path.
        seed: the seed of the direction along which sequences are distinguished.
    """

    path: hs.AttentionPath
    share: float
    seed: int


def by_turns(known: Known, turns: Turns) -> Altered:
    """Return a known model in which one row attends to another position in some sequences.

    Args:
        known: the known model, under a causal mask.
        turns: the path of the row, and how often the row takes it.
    """
    moved, apart = Backup(turns.path, 0.0), distinguished_by(known, turns.path.layer, turns.share, turns.seed)
    return Altered(known.transformer, lambda layer, block: _Turned(block, merging(known, moved, layer), apart))


class Distinguished(NamedTuple):
    """Two kinds of sequences, distinguished by the first position (which sees only itself) along a direction."""

    direction: Float[Tensor, " d_model"]
    least: float

    def __call__(self, normed: Float[Tensor, "1 sequence pos d_model"]) -> Bool[Tensor, "sequence 1 1"]:
        """Return whether each sequence is of the second kind."""
        return (normed[0, :, 0] @ self.direction >= self.least)[:, None, None]


@torch.no_grad()
def distinguished_by(known: Known, layer: int, share: float, seed: int) -> Distinguished:
    """Return a division of sequences by their first symbol, so that a share of them is of the first kind.

    Args:
        known: the known model, under a causal mask.
        layer: the layer in which sequences are distinguished, from 0.
        share: the share of the sequences that is of the first kind.
        seed: the seed of the direction.
    """
    model, batch = known.transformer, hs.sample(known.problem, 512, torch.Generator().manual_seed(seed))
    stream = model.run(model.embed(batch.inputs[None]), stop=layer)
    block: Any = model.blocks[layer]
    first = block.attention_norm(stream)[0, :, 0]
    direction = torch.randn(first.shape[1], generator=torch.Generator().manual_seed(seed))
    return Distinguished(direction, float((first @ direction).quantile(share)))


class _Turned(Shared):
    """A block in which one row attends to another position in sequences of the second kind."""

    def __init__(self, block: Any, merging: Merging, apart: Distinguished) -> None:
        super().__init__(block, merging)
        self.apart = apart

    def pattern(self, normed: Float[Tensor, "1 sequence pos d_model"]) -> Float[Tensor, "sequence head query key"]:
        """Return the heads' pattern. In sequences of the second kind, the key's weight is on the other member."""
        usual: Tensor = self.attention.pattern(normed, normed)[0]
        return torch.where(self.apart(normed)[..., None], super().pattern(normed), usual)
