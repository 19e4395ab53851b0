"""A model with a loud head: a part of what a path brings comes by a look that one can hardly see, amplified.

The head is added beside the path's own. It has less than 0.1 more weight on the path's key than on others, so that it
counts as no path, and writes by how much its look differs from one that goes everywhere alike: a circuit in which it
stands at its mean, as background, says nothing of a part of what it needs.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

import hopscope as hs
from studies.calibration.altered import Altered, AlteredBlock, Known
from studies.calibration.backup import places
from studies.calibration.beside import everywhere_alike
from studies.calibration.turns import ToldApart, told_apart


@dataclass(frozen=True)
class Loud:
    """A loud head.

    Attributes:
        path: the path of which it does a part.
        share: the share of what the path brings that comes from it.
        weight: the weight of its look that goes where the path's head looks; the rest goes everywhere alike.
        seed: the seed of the direction along which sequences are told apart: in half of them it looks away from there
            instead, and writes the contrary. So its mean knows nothing, and the circuit needs it as it is. The weight
            must then be less than what a look everywhere alike has for a key. None for never.
        first: whether it does so for the first of the path's queries alone, of whichever chain that is.
    """

    path: hs.AttentionPath
    share: float
    weight: float
    seed: int | None = None
    first: bool = False

    def row(self, heads: int) -> Any:
        """Its row, by the number of heads of the known model."""
        return self.path.row._replace(head=heads)


def with_loud(known: Known, loud: Loud) -> Altered:
    """A known model with a loud head. It answers as before.

    Args:
        known: the known model, on chains.
        loud: the head.
    """
    here = torch.zeros(known.problem.sequence_length, 1, dtype=torch.bool)
    here[list(places(known.problem, loud.path.query))[: 1 if loud.first else None]] = True
    nowhere = torch.zeros_like(here)
    apart = None if loud.seed is None else told_apart(known, loud.path.layer, 0.5, loud.seed)
    return Altered(
        known.transformer,
        lambda layer, block: _Louder(block, loud, here if layer == loud.path.layer else nowhere, apart),
    )


class _Louder(AlteredBlock):
    """A block of the known model with a loud head for some queries; for all others it looks everywhere alike."""

    def __init__(self, block: Any, loud: Loud, queries: Bool[Tensor, "query 1"], apart: ToldApart | None) -> None:
        super().__init__(block)
        self.loud, self.queries, self.apart, self.own = loud, queries, apart, deepcopy(block.attention)
        self.weight = loud.weight

    def pattern(self, normed: Float[Tensor, "1 sequence pos d_model"]) -> Float[Tensor, "sequence head query key"]:
        """The pattern of the block's heads, and of the loud one."""
        theirs = self.attention.pattern(normed, normed)[0]
        look = self.own.pattern(normed, normed)[0, :, self.loud.path.head]
        alike = self._alike(look)
        loud = torch.where(self.queries, alike + self._sign(normed) * self.weight * (look - alike), alike)
        return torch.cat([theirs, loud[:, None]], dim=1)

    def _sign(self, normed: Float[Tensor, "1 sequence pos d_model"]) -> Float[Tensor, "sequence 1 1"] | float:
        """Whether the head looks towards the key, or away from it."""
        return 1.0 if self.apart is None else 1.0 - 2.0 * self.apart(normed).float()

    def _alike(self, look: Float[Tensor, "sequence query key"]) -> Float[Tensor, "query key"]:
        """The same weight on everything that a query sees."""
        return everywhere_alike(look[0], causal=self.attention.causal)

    def written(
        self,
        pattern: Float[Tensor, "sequence head query key"],
        normed: Float[Tensor, "1 sequence pos d_model"],
    ) -> Float[Tensor, "sequence pos d_model"]:
        """What the block's heads write, the path's less of it, and what the loud one makes up for it."""
        theirs, loud = pattern[:, :-1].clone(), pattern[:, -1]
        alike = self._alike(loud)
        head, share = self.loud.path.head, self.loud.share
        made_up = self._sign(normed) * share / self.loud.weight * (loud - alike) + share * alike
        more = torch.zeros_like(theirs)
        more[:, head] = torch.where(self.queries, made_up, 0.0)
        theirs[:, head] = torch.where(self.queries, (1 - share) * theirs[:, head], theirs[:, head])
        written: Tensor = self.attention.write(theirs[None], normed)[0]
        beside: Tensor = self.own.write(more[None], normed)[0] - self.own.out.bias[0]
        return written + beside

    def untrain(self, head: int) -> None:
        """Let the loud head look everywhere alike; the others were not altered."""
        if head == self.attention.heads:
            self.weight = 0.0
