"""Positions told by chain and role, so that attention can be spoken of before and after any shuffle.

A key stands to a query in one of 2(2D + 1) relations: same chain and role r (relation r), or another chain and role r
(relation 2D + 1 + r). Attention maps are averaged over relations, never over positions: the chains are shuffled, so an
average over positions washes out everything a head does by content.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from hopscope.problem.vectors import Batch


@dataclass(frozen=True)
class Coordinates:
    """Where everything stands in a batch.

    Attributes:
        role: the role of every position.
        relation: how the key at the last axis stands to the query before it.
        allowed: whether a query may attend to a key at all.
        place: the position of every role of every chain.
    """

    role: Int[Tensor, "batch pos"]
    relation: Int[Tensor, "batch query key"]
    allowed: Bool[Tensor, "query key"]
    place: Int[Tensor, "batch chain role"]

    @property
    def roles(self) -> int:
        """2D + 1."""
        return self.place.shape[-1]


def coordinates(batch: Batch, causal: bool) -> Coordinates:
    """Coordinates of a batch with one leading axis."""
    role, chain = batch.role, batch.chain
    foreign = chain[:, :, None] != chain[:, None, :]
    relation = role[:, None, :] + foreign * batch.place.shape[-1]
    length = role.shape[-1]
    allowed = torch.ones(length, length, dtype=torch.bool, device=role.device)
    return Coordinates(role, relation, allowed.tril() if causal else allowed, batch.place)


def visible_roles(place: Int[Tensor, "batch chain role"], causal: bool) -> Bool[Tensor, "role role"]:
    """Whether a position of the first role always may attend to that of the second in its own chain."""
    if not causal:
        return torch.ones(place.shape[-1], place.shape[-1], dtype=torch.bool)
    return (place[..., :, None] >= place[..., None, :]).flatten(0, -3).all(dim=0).cpu()
