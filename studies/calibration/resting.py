"""A model with a resting head: most of its weight is where it reads nothing, and a little is on a key that is not used.

The head is added to a layer of a known model. If its row is ablated, the head writes a large vector to the residual
stream, so the row is needed. The little attention to the key is not needed. A circuit that contains the row with every
key that it attends to therefore claims one path too many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

import hopscope as hs
from studies.calibration.altered import LOUD, Altered, BlockWithMore, Known, start_of


@dataclass(frozen=True)
class Rest:
    """A resting head.

    Attributes:
        layer: the layer of the head, from 0.
        pair: the pair whose second members are the queries that rest. Each of them also attends to the first member,
            one position before. The last pair is not allowed, because the queries rest at its first position.
        weight: the attention weight on the first member.
        seed: the seed of the direction in which the head writes.
    """

    layer: int
    pair: int
    weight: float
    seed: int


def resting(known: Known, rest: Rest) -> Altered:
    """Return a known model with one head added at the end of every layer.

    Args:
        known: the known model, with the block of the deepest pair first.
        rest: the layer whose added head rests, and how. The heads added to other layers write nothing.
    """
    own, generator = _pattern(known.problem, rest), torch.Generator().manual_seed(rest.seed)
    direction = torch.randn(known.transformer.shape.d_model, generator=generator)
    writes, nothing = LOUD * direction / direction.norm(), torch.zeros_like(direction)
    return Altered(
        known.transformer, lambda layer, block: _WithRest(block, own, writes if layer == rest.layer else nothing)
    )


def _pattern(problem: hs.RetrievalProblem, rest: Rest) -> Float[Tensor, "query key"]:
    """Return the added head's pattern: it rests at the first position, with a little weight on the position before."""
    pattern = torch.zeros(problem.sequence_length, problem.sequence_length)
    pattern[:, 0] = 1
    start = start_of(problem, rest.pair)
    for place in range(start + 1, start + 2 * problem.chains, 2):
        pattern[place] *= 1 - rest.weight
        pattern[place, place - 1] = rest.weight
    return pattern


class _WithRest(BlockWithMore):
    """A block of the known model with one more head: the resting head or, in other layers, one that writes nothing."""

    def __init__(self, block: Any, own: Float[Tensor, "query key"], direction: Float[Tensor, " d_model"]) -> None:
        super().__init__(block, own)
        self.direction = direction
        self.writes = (own[:, 1:].sum(dim=-1) > 0).to(own.dtype)

    def written(
        self, pattern: Float[Tensor, "sequence head query key"], normed: Float[Tensor, "1 sequence pos d_model"]
    ) -> Float[Tensor, "sequence pos d_model"]:
        """Return what the heads write. At resting queries, the added head's output grows with its weight elsewhere."""
        output: Tensor = self.attention.write(pattern[None, :, :-1], normed)[0]
        read = pattern[:, -1, :, 1:].sum(dim=-1)  # all weight off the first position, where the head rests
        return output + (read * self.writes)[..., None] * self.direction
