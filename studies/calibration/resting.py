"""A model with a resting head: most of its weight is where it reads nothing, and some on a key, for no use.

The head is added to a layer of a known model. What it reads must not reach the stream, so its row is needed, but the
little attention to the key is not: a circuit that has the row with all that it attends to claims one path too many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

import hopscope as hs
from studies.calibration.altered import Altered, BlockWithMore, Known, start_of

MAGNITUDE = 10.0
"""Length of the vector that a head writes where it does not rest at all."""


@dataclass(frozen=True)
class Rest:
    """A resting head.

    Attributes:
        layer: the layer that it is in, from 0.
        pair: the pair whose second members rest; they attend to the first members, the positions before them. It is not
            the last pair, which is where they rest.
        weight: the attention weight on the first member.
        seed: the seed of the direction in which the head writes what it reads where it does not rest.
    """

    layer: int
    pair: int
    weight: float
    seed: int

    def path(self, problem: hs.RetrievalProblem, head: int) -> hs.AttentionPath:
        """The path along which the head attends, for which it is not needed.

        Args:
            problem: the problem, for its roles.
            head: its number in the layer, from 0: as many as the known model has, since it is the last.
        """
        return hs.AttentionPath(
            self.layer, head, problem.roles.index(f">x{self.pair}"), problem.roles.index(f"x{self.pair - 1}>")
        )


def resting(known: Known, rest: Rest) -> Altered:
    """A known model with one more head in every layer, the last of each.

    Args:
        known: the known model, on chains deepest first.
        rest: which of the added heads rests, and how; the others write nothing.
    """
    own, generator = _pattern(known.problem, rest), torch.Generator().manual_seed(rest.seed)
    direction = torch.randn(known.transformer.shape.d_model, generator=generator)
    writes, nothing = MAGNITUDE * direction / direction.norm(), torch.zeros_like(direction)
    return Altered(
        known.transformer, lambda layer, block: _WithRest(block, own, writes if layer == rest.layer else nothing)
    )


def _pattern(problem: hs.RetrievalProblem, rest: Rest) -> Float[Tensor, "query key"]:
    """The attention of the added head: on the first position, where it rests, and a little on the position before."""
    pattern = torch.zeros(problem.sequence_length, problem.sequence_length)
    pattern[:, 0] = 1
    start = start_of(problem, rest.pair)
    for place in range(start + 1, start + 2 * problem.chains, 2):
        pattern[place] *= 1 - rest.weight
        pattern[place, place - 1] = rest.weight
    return pattern


class _WithRest(BlockWithMore):
    """A block of the known model with one more head: the resting one or, in other layers, one that writes nothing."""

    def __init__(self, block: Any, own: Float[Tensor, "query key"], direction: Float[Tensor, " d_model"]) -> None:
        super().__init__(block, own)
        self.direction = direction
        self.writes = (own[:, 1:].sum(dim=-1) > 0).to(own.dtype)

    def written(
        self,
        pattern: Float[Tensor, "sequence head query key"],
        normed: Float[Tensor, "1 sequence pos d_model"],
    ) -> Float[Tensor, "sequence pos d_model"]:
        """What the block's heads write. The added one writes what it reads where its row rests, and nowhere else."""
        output: Tensor = self.attention.write(pattern[None, :, :-1], normed)[0]
        read = pattern[:, -1, :, 1:].sum(dim=-1)  # everything but the position to rest at
        return output + (read * self.writes)[..., None] * self.direction
