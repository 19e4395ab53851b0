"""A block of a known model with heads beside its own, which look where they are told, whatever the sequence."""

from __future__ import annotations

from abc import ABC
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from studies.calibration.altered import AlteredBlock


class BlockWithMore(AlteredBlock, ABC):
    """A block of the known model with more heads, the last ones, all of one pattern.

    Args:
        block: the block.
        own: the pattern of the added heads.
        more: how many there are.
    """

    def __init__(self, block: Any, own: Float[Tensor, "query key"], more: int = 1) -> None:
        super().__init__(block)
        self.own, self.more = own, more

    def pattern(self, normed: Float[Tensor, "1 sequence pos d_model"]) -> Float[Tensor, "sequence head query key"]:
        """The pattern of the block's heads, and that of the added ones."""
        theirs = self.attention.pattern(normed, normed)[0]
        return torch.cat([theirs, self.own.expand(len(theirs), self.more, *self.own.shape)], dim=1)

    def untrain(self, head: int) -> None:
        """Let the added heads attend everywhere alike; the others were not altered."""
        if head >= self.attention.heads:
            self.own = everywhere_alike(self.own, causal=self.attention.causal)


def everywhere_alike(pattern: Float[Tensor, "query key"], *, causal: bool) -> Float[Tensor, "query key"]:
    """The pattern, of the same size, that has the same weight on everything that a query sees."""
    seen = torch.ones_like(pattern)
    seen = seen.tril() if causal else seen
    return seen / seen.sum(dim=-1, keepdim=True)
