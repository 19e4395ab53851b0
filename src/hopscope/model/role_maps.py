"""Roles and chains of positions, and mean attention by role (Appendix C, with the shuffle undone)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.model.hooks import Pattern


@dataclass(frozen=True)
class RoleMaps:
    """Mean attention by role, of every layer and head.

    Attributes:
        same: mean weight that a position of the query role puts on the position of the key role in its own chain.
            Positions that have no such key, or may not attend to it, do not count.
        other: mean total weight on all positions of the key role in other chains. The `same` and `other` of a query
            role sum to 1 if every chain has every role.
        expected: mean weight of a single key by its relation to the query, over the pairs in which the query may attend
            to the key. The `mean` ablation uses it.
    """

    same: Float[Tensor, "model layer head role role"]
    other: Float[Tensor, "model layer head role role"]
    expected: Float[Tensor, "model layer head role relation"]


def role_maps(patterns: Iterable[Pattern], where: Coordinates) -> RoleMaps:
    """Compute role maps from patterns with all positions as queries, as `Transformer.patterns` returns them."""
    parts = [_one_layer(pattern, where) for pattern in patterns]
    same, other, expected = (torch.stack(part, dim=1) for part in zip(*parts, strict=True))
    return RoleMaps(same, other, expected)


def _one_layer(pattern: Pattern, where: Coordinates) -> tuple[Tensor, Tensor, Tensor]:
    """Compute `same`, `other` and `expected` of one layer, without the axis of layers."""
    roles, batch = where.roles, len(where.role)
    # Sum the weights of every query by relation, then these sums by the query's role.
    relation = where.relation[None, :, None].expand(pattern.shape)
    total = pattern.new_zeros(*pattern.shape[:-1], 2 * roles).scatter_add_(-1, relation, pattern)
    by_role = _by_role(total.flatten(0, 2), where.role[None, :, None].expand(pattern.shape[:-1]).flatten(0, 2), roles)
    summed = by_role.view(*pattern.shape[:3], roles, 2 * roles).sum(dim=1)  # model head role relation

    allowed = where.allowed.expand(batch, -1, -1).to(total.dtype)
    pairs = total.new_zeros(*where.role.shape, 2 * roles).scatter_add_(-1, where.relation, allowed)
    pairs = _by_role(pairs, where.role, roles).sum(dim=0)  # role relation
    holders = torch.bincount(where.role.flatten(), minlength=roles).clamp(min=1)
    expected = summed / pairs.clamp(min=1)
    return expected[..., :roles], summed[..., roles:] / holders[:, None], expected  # own chain: one key per role


def _by_role(
    total: Float[Tensor, "row pos relation"], role: Int[Tensor, "row pos"], roles: int
) -> Float[Tensor, "row role relation"]:
    index = role[..., None].expand(total.shape)
    return total.new_zeros(len(total), roles, total.shape[-1]).scatter_add_(1, index, total)


@runtime_checkable
class Sequences(Protocol):
    """A batch as an evaluator needs it: inputs, and the position of every role of every chain in the inputs."""

    @property
    def inputs(self) -> Float[Tensor, "batch pos d_input"] | Int[Tensor, "batch pos"]:
        """The inputs, as vectors or tokens."""

    @property
    def role(self) -> Int[Tensor, "batch pos"]:
        """The role of every position."""

    @property
    def chain(self) -> Int[Tensor, "batch pos"]:
        """The chain of every position; -1 for words that belong to no chain."""

    @property
    def place(self) -> Int[Tensor, "batch chain role"]:
        """The position of every role of every chain; -1 if a chain lacks the role."""

    def __getitem__(self, index: slice) -> Sequences:
        """Return the sequences in this slice."""


@dataclass(frozen=True)
class Coordinates:
    """The roles, chains and relations of all positions of a batch.

    Attributes:
        role: the role of every position.
        relation: the key's role, plus the number of roles if the key is not in the query's chain.
        allowed: whether a query may attend to a key.
        place: the position of every role of every chain; -1 if a chain lacks the role.
        visible: whether a position of the first role may always attend to the second role's position in its own chain.
    """

    role: Int[Tensor, "batch pos"]
    relation: Int[Tensor, "batch query key"]
    allowed: Bool[Tensor, "query key"]
    place: Int[Tensor, "batch chain role"]
    visible: Bool[Tensor, "role role"]

    @property
    def roles(self) -> int:
        """The number of roles: for chains, 2D + 1 in vectors and 4D + 3 in text."""
        return self.place.shape[-1]


def coordinates(batch: Sequences, causal: bool) -> Coordinates:
    """Compute the coordinates of a batch with one leading axis."""
    role, chain = batch.role, batch.chain
    length = role.shape[-1]
    itself = torch.eye(length, dtype=torch.bool, device=role.device)  # words outside chains are foreign to all others
    foreign = ((chain[:, :, None] != chain[:, None, :]) | (chain < 0)[:, None, :]) & ~itself
    relation = role[:, None, :] + foreign * batch.place.shape[-1]
    allowed = torch.ones(length, length, dtype=torch.bool, device=role.device)
    visible = visible_roles(batch.place, causal)
    return Coordinates(role, relation, allowed.tril() if causal else allowed, batch.place, visible)


def visible_roles(place: Int[Tensor, "*batch chain role"], causal: bool) -> Bool[Tensor, "role role"]:
    """Return whether a position of the first role may always attend to the second role's position in its own chain."""
    query, key = place.flatten(0, -2)[:, :, None], place.flatten(0, -2)[:, None, :]
    both = (query >= 0) & (key >= 0)
    seen = (query >= key) | ~both if causal else torch.ones_like(both)
    return (seen.all(dim=0) & both.any(dim=0)).cpu()
