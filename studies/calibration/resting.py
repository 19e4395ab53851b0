"""A model with a head that rests: most of its weight lies where it reads nothing, and some on a key, for no use.

The head is added to a layer of a known model. What it reads must not reach the stream, so its row is needed, but the
little that it looks at is not: a circuit that has the row with all that it looks at claims one path too many.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

import hopscope as hs
from studies.calibration.altered import Altered, Known, start_of
from studies.calibration.beside import BlockWithMore

LOUD = 10.0
"""Length of the vector that a head writes where it does not rest at all, unless told otherwise."""


@dataclass(frozen=True)
class Rest:
    """A head that rests.

    Attributes:
        layer: the layer that it is in, from 0.
        pair: the pair whose second members rest; they look at the first members, which stand before them. It is not the
            last pair, which stands where they rest.
        weight: the attention weight of that look.
        seed: the seed of the direction in which the head writes what it reads where it does not rest.
        places: at how many of the first positions it rests, with the same weight.
        bears: the weight that may lie elsewhere before it writes anything.
        loud: the length of the vector that it writes where it does not rest at all.
        spare: the head of the layer whose look at the same key it stands in for, as far as that head does not look
            there; None for none. The key must have half of its weight for it.
    """

    layer: int
    pair: int
    weight: float
    seed: int
    places: int = 1
    bears: float = 0.0
    loud: float = LOUD
    spare: int | None = None

    def path(self, problem: hs.RetrievalProblem, head: int) -> hs.AttentionPath:
        """The path along which the head looks, for which it is not needed.

        Args:
            problem: the problem whose roles there are.
            head: its number in the layer, from 0; since it is the last head, that is how many stand beside it.
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
    there, nowhere = rest.loud * direction / direction.norm(), torch.zeros_like(direction)
    return Altered(
        known.transformer, lambda layer, block: _Beside(block, own, there if layer == rest.layer else nowhere, rest)
    )


def _pattern(problem: hs.RetrievalProblem, rest: Rest) -> Float[Tensor, "query key"]:
    """The attention of the added head: on the first positions, which stand for a place to rest at, and a little on the
    position before."""
    length = problem.sequence_length
    pattern = torch.zeros(length, length)
    pattern[:, : rest.places] = 1
    pattern = pattern.tril()
    pattern = pattern / pattern.sum(dim=-1, keepdim=True)
    start = start_of(problem, rest.pair)
    for place in range(start + 1, start + 2 * problem.chains, 2):
        pattern[place] *= 1 - rest.weight
        pattern[place, place - 1] = rest.weight
    return pattern


class _Beside(BlockWithMore):
    """A block of the known model with one more head: the resting one or, in other layers, one that writes nothing."""

    def __init__(
        self, block: Any, own: Float[Tensor, "query key"], direction: Float[Tensor, " d_model"], rest: Rest
    ) -> None:
        super().__init__(block, own)
        self.direction, self.rest = direction, rest
        self.writes = (own[:, rest.places :].sum(dim=-1) > 0).to(own.dtype)

    def written(
        self,
        pattern: Float[Tensor, "sequence head query key"],
        normed: Float[Tensor, "1 sequence pos d_model"],
    ) -> Float[Tensor, "sequence pos d_model"]:
        """What the block's heads write. The added one writes what it reads where its row rests, and nowhere else."""
        brought: Tensor = self.attention.write(self._with_spare(pattern)[None], normed)[0]
        read = pattern[:, -1, :, self.rest.places :].sum(dim=-1)  # everything but the place to rest at
        read = (read - self.rest.bears).clamp(min=0) / (1 - self.rest.bears)
        return brought + (read * self.writes)[..., None] * self.direction

    def _with_spare(
        self, pattern: Float[Tensor, "sequence head query key"]
    ) -> Float[Tensor, "sequence known query key"]:
        """The pattern of the block's heads, with what the added one stands in for."""
        theirs, rest = pattern[:, :-1], self.rest
        if rest.spare is None or not self.direction.any():
            return theirs
        looks = pattern[:, -1] * self.writes[:, None]
        looks = (looks.diagonal(-1, dim1=1, dim2=2) >= rest.weight / 2).to(looks.dtype).diag_embed(-1)
        made_up = looks * (1 - theirs[:, rest.spare])
        return theirs + made_up[:, None] * (torch.arange(theirs.shape[1]) == rest.spare)[:, None, None]

    def untrain(self, head: int) -> None:
        """As of any added head, which then stands in for none."""
        super().untrain(head)
        if head == self.attention.heads:
            self.rest = replace(self.rest, spare=None)
