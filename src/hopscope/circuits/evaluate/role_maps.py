"""Attention maps by role: weights are sorted by role first, then averaged (Appendix C's maps, the shuffle undone)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hopscope.circuits.evaluate.coordinates import Coordinates
from hopscope.model.hooks import Pattern


@dataclass(frozen=True)
class RoleMaps:
    """Average attention by role, of every layer and head.

    Attributes:
        same: mean weight that a position of the query role puts on the position of the key role in its own chain, over
            the positions whose chain has that key role, where it may be attended to.
        other: mean weight on all positions of the key role in other chains together. `same` and `other` of a row sum
            to 1 where every chain has every role.
        expected: mean weight of one key, by relation, over the pairs where the key is allowed; used by `mean`.
    """

    same: Float[Tensor, "model layer head role role"]
    other: Float[Tensor, "model layer head role role"]
    expected: Float[Tensor, "model layer head role relation"]


def role_maps(patterns: list[Pattern], where: Coordinates) -> RoleMaps:
    """Role maps of whole patterns (every position a query), as `Transformer.patterns` gives them."""
    parts = [_one_layer(pattern, where) for pattern in patterns]
    same, other, expected = (torch.stack(part, dim=1) for part in zip(*parts, strict=True))
    return RoleMaps(same, other, expected)


def joined(maps: Sequence[RoleMaps]) -> RoleMaps:
    """The maps of single layers, first layer first, joined into one."""
    return RoleMaps(*(torch.cat([getattr(one, field.name) for one in maps], dim=1) for field in fields(RoleMaps)))


def _one_layer(
    pattern: Pattern, where: Coordinates
) -> tuple[
    Float[Tensor, "model head role role"],
    Float[Tensor, "model head role role"],
    Float[Tensor, "model head role relation"],
]:
    roles, batch = where.roles, len(where.role)
    # The weights of every position summed by relation, then those sums by the position's role.
    relation = where.relation[None, :, None].expand(pattern.shape)
    total = pattern.new_zeros(*pattern.shape[:-1], 2 * roles).scatter_add_(-1, relation, pattern)
    by_role = _by_role(total.flatten(0, 2), where.role[None, :, None].expand(pattern.shape[:-1]).flatten(0, 2), roles)
    summed = by_role.view(*pattern.shape[:3], roles, 2 * roles).sum(dim=1)  # model head role relation

    allowed = where.allowed.expand(batch, -1, -1).to(total.dtype)
    pairs = total.new_zeros(*where.role.shape, 2 * roles).scatter_add_(-1, where.relation, allowed)
    pairs = _by_role(pairs, where.role, roles).sum(dim=0)  # role relation
    holders = torch.bincount(where.role.flatten(), minlength=roles).clamp(min=1)
    expected = summed / pairs.clamp(min=1)
    return expected[..., :roles], summed[..., roles:] / holders[:, None], expected  # own chain: one key a role


def _by_role(
    total: Float[Tensor, "row pos relation"], role: Int[Tensor, "row pos"], roles: int
) -> Float[Tensor, "row role relation"]:
    """Sums over the positions of every role."""
    index = role[..., None].expand(total.shape)
    return total.new_zeros(len(total), roles, total.shape[-1]).scatter_add_(1, index, total)
