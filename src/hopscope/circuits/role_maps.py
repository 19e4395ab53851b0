"""Attention maps in terms of roles: gather first, average after (Appendix C's maps, with the shuffle undone)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.coordinates import Coordinates
from hopscope.model.edit import Pattern


@dataclass(frozen=True)
class RoleMaps:
    """Average attention by role, of every layer and head.

    Attributes:
        same: mean weight that a position of the query role puts on the position of the key role in its own chain.
        other: mean weight on all positions of the key role in other chains together. `same` and `other` of a row sum
            to 1.
        expected: mean weight of one key, by relation, over the pairs where the key is allowed: what `mean` uses.
    """

    same: Float[Tensor, "model layer head role role"]
    other: Float[Tensor, "model layer head role role"]
    expected: Float[Tensor, "model layer head role relation"]


def role_maps(patterns: list[Pattern], where: Coordinates) -> RoleMaps:
    """Role maps of whole patterns (every position a query), as `Transformer.patterns` gives them."""
    parts = [_one_layer(pattern, where) for pattern in patterns]
    same, other, expected = (torch.stack(part, dim=1) for part in zip(*parts, strict=True))
    return RoleMaps(same, other, expected)


def _one_layer(
    pattern: Pattern, where: Coordinates
) -> tuple[
    Float[Tensor, "model head role role"],
    Float[Tensor, "model head role role"],
    Float[Tensor, "model head role relation"],
]:
    roles, place = where.roles, where.place
    batch, chains = place.shape[0], place.shape[1]
    # Rows by chain and role, then their weights summed by relation: one gather, one scatter.
    rows = place.flatten(1)
    index = rows[None, :, None, :, None].expand(*pattern.shape[:1], batch, pattern.shape[2], -1, pattern.shape[-1])
    gathered = pattern.gather(-2, index)
    relation = where.relation.gather(1, rows[..., None].expand(-1, -1, pattern.shape[-1]))
    total = gathered.new_zeros(*gathered.shape[:-1], 2 * roles)
    total.scatter_add_(-1, relation[None, :, None].expand(gathered.shape), gathered)
    by_chain = total.view(*total.shape[:3], chains, roles, 2 * roles)
    summed = by_chain.sum(dim=(1, 3))  # model head role relation

    allowed = where.allowed.expand(batch, -1, -1).gather(1, rows[..., None].expand(-1, -1, pattern.shape[-1]))
    pairs = total.new_zeros(batch, rows.shape[1], 2 * roles).scatter_add_(-1, relation, allowed.to(total.dtype))
    pairs = pairs.view(batch, chains, roles, 2 * roles).sum(dim=(0, 1))  # role relation
    mean = summed / (batch * chains)
    return mean[..., :roles], mean[..., roles:], summed / pairs.clamp(min=1)
