"""Roles and chains of positions: attention maps by role (Appendix C, the shuffle undone), and keys of the own chain."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

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


def role_maps(patterns: Iterable[Pattern], where: Coordinates) -> RoleMaps:
    """Role maps of whole patterns (every position a query), as `Transformer.patterns` gives them."""
    parts = [_one_layer(pattern, where) for pattern in patterns]
    same, other, expected = (torch.stack(part, dim=1) for part in zip(*parts, strict=True))
    return RoleMaps(same, other, expected)


def _one_layer(pattern: Pattern, where: Coordinates) -> tuple[Tensor, Tensor, Tensor]:
    """The maps of one layer, without the axis of layers: `same`, `other`, `expected`."""
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


@runtime_checkable
class Sequences(Protocol):
    """What an evaluator needs of a batch: inputs, and the position of every role of every chain in them."""

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
        """The position of every role of every chain; -1 where there is none."""

    def __getitem__(self, index: slice) -> Sequences:
        """A part of the sequences."""


@dataclass(frozen=True)
class Coordinates:
    """The roles, chains and relations of all positions of a batch.

    Attributes:
        role: the role of every position.
        relation: the relation of the key (last axis) to the query (the axis before it).
        allowed: whether a query may attend to a key at all.
        place: the position of every role of every chain; -1 where there is none.
        visible: whether a position of the first role may always attend to that of the second in its own chain.
    """

    role: Int[Tensor, "batch pos"]
    relation: Int[Tensor, "batch query key"]
    allowed: Bool[Tensor, "query key"]
    place: Int[Tensor, "batch chain role"]
    visible: Bool[Tensor, "role role"]

    @property
    def roles(self) -> int:
        """How many roles there are: for chains, 2D + 1 in vectors and 4D + 3 in text."""
        return self.place.shape[-1]


def coordinates(batch: Sequences, causal: bool) -> Coordinates:
    """The coordinates of a batch with one leading axis."""
    role, chain = batch.role, batch.chain
    length = role.shape[-1]
    itself = torch.eye(length, dtype=torch.bool, device=role.device)  # a word of no chain is foreign to all but itself
    foreign = ((chain[:, :, None] != chain[:, None, :]) | (chain < 0)[:, None, :]) & ~itself
    relation = role[:, None, :] + foreign * batch.place.shape[-1]
    allowed = torch.ones(length, length, dtype=torch.bool, device=role.device)
    visible = visible_roles(batch.place, causal)
    return Coordinates(role, relation, allowed.tril() if causal else allowed, batch.place, visible)


def visible_roles(place: Int[Tensor, "*batch chain role"], causal: bool) -> Bool[Tensor, "role role"]:
    """Whether a position of the first role may always attend to that of the second in its own chain."""
    query, key = place.flatten(0, -2)[:, :, None], place.flatten(0, -2)[:, None, :]
    both = (query >= 0) & (key >= 0)
    seen = (query >= key) | ~both if causal else torch.ones_like(both)
    return (seen.all(dim=0) & both.any(dim=0)).cpu()


_NOTHING = 1e-6
"""The share of a row's weight up to which nothing is left of it without its own chain, so that it cannot be scaled."""


class SharedKeys(NamedTuple):
    """The keys in chains whose weight is shared among these, for every position, and the positions that attend to no
    other (`whole`) but themselves and words of no chain."""

    keys: Bool[Tensor, "batch key key"]
    whole: Bool[Tensor, "batch key 1"]


class ChainsSeen:
    """The chains of a batch, as its queries see them."""

    def __init__(self, where: Coordinates) -> None:
        self._where = where
        self._roles = torch.nn.functional.one_hot(where.role).float()
        self._mine, self._in_chain = own_chain(where), _occupied(where, where.place)

    def shared(self, named: Mapping[int, Collection[int]]) -> SharedKeys:
        """What some queries attend to in chains, but for their own position and the named roles of their own chain."""
        where, keys = self._where, torch.zeros_like(self._where.relation, dtype=torch.bool)
        whole = torch.zeros_like(where.role, dtype=torch.bool)
        itself = torch.eye(keys.shape[-1], dtype=torch.bool, device=keys.device)
        for query, stay in named.items():
            of_row = (where.role == query)[..., None] & where.allowed & self._in_chain[:, None] & ~itself
            keys |= of_row & ~torch.isin(where.relation, where.relation.new_tensor([*stay]))
            whole |= (where.role == query) & (not stay)
        return SharedKeys(keys, whole[..., None])

    def alike(
        self, pattern: Float[Tensor, "any batch query key"], shared: SharedKeys
    ) -> Float[Tensor, "any batch query key"]:
        """A pattern with as much on every role of the own chain as of another one, on average over those that are seen.

        That is nothing where no other one is seen. Then a row is scaled to sum to 1, so that nothing of it tells how
        much it put on its own chain; of a row with named keys only what it puts on other keys in chains, to be as
        much as before. Where nothing is left, a role's weight is spread over all chains, and goes to the query's own
        position where no other one is seen. Where one chain alone is asked about, as in text, it counts as the own one
        of every row: a word of no chain, or another chain's, could find the answer and be read in its place. Queries
        are the last positions.
        """
        keys, scaled = (of_all[:, -pattern.shape[-2] :] for of_all in (shared.keys, shared.keys | shared.whole))
        own = keys & self._mine[:, -pattern.shape[-2] :]
        mean, seen = self._mean(pattern, keys & ~own)
        blind = torch.where(own, mean, pattern) * scaled
        even = self._mean(pattern, keys)[0] * (keys & seen)
        before, after = (weights.sum(dim=-1, keepdim=True) for weights in (pattern * scaled, blind))
        left = after > _NOTHING * before
        alike = torch.where(left, blind * (before / torch.where(left, after, 1.0)), even)
        itself = torch.eye(keys.shape[-1], device=keys.device)[-pattern.shape[-2] :]
        return torch.where(scaled, alike, pattern) + itself * (before - alike.sum(dim=-1, keepdim=True)).clamp(min=0)

    def moved(
        self, pattern: Float[Tensor, "any batch query key"], keys: Mapping[int, Collection[int]]
    ) -> Float[Tensor, "any batch query key"]:
        """A pattern in which what some queries put on roles of their own chain lies on these roles of the others.

        Each of the other chains gets the same; where a query sees none, its weight stays. `keys` are these roles by
        query role; queries are the last positions.
        """
        where, queries = self._where, pattern.shape[-2]
        attends = torch.zeros_like(where.relation, dtype=torch.bool)
        for query, roles in keys.items():
            named = torch.isin(where.role, where.role.new_tensor([*roles])) & self._in_chain
            attends |= (where.role == query)[..., None] & where.allowed & named[:, None]
        attends, mine = attends[:, -queries:], self._mine[:, -queries:]
        others = attends & ~mine
        count = others.float() @ self._roles
        there = (count @ self._roles.mT) > 0
        going = pattern * (attends & mine & there)
        coming = (going @ self._roles / count.clamp(min=1.0)) @ self._roles.mT * others
        return pattern - going + coming

    def _mean(
        self, pattern: Float[Tensor, "any batch query key"], among: Bool[Tensor, "batch query key"]
    ) -> tuple[Float[Tensor, "any batch query key"], Bool[Tensor, "batch query key"]]:
        """For every key, the mean weight on keys of its role among some, and whether there are any."""
        count = among.float() @ self._roles
        mean: Tensor = (pattern * among) @ self._roles / count.clamp(min=1.0) @ self._roles.mT
        return mean, (count @ self._roles.mT) > 0


def seen_elsewhere(where: Coordinates, query: int, key: int) -> float:
    """The share of the positions of a query role that see a key role in another chain than their own."""
    others = where.allowed & (where.role == key)[:, None] & _occupied(where, where.place)[:, None] & ~own_chain(where)
    asked = others.any(dim=-1)[where.role == query].float()
    return float(asked.mean()) if len(asked) else 0.0


def own_chain(where: Coordinates) -> Bool[Tensor, "batch query key"]:
    """Whether a key is of the query's chain, or of the chain asked about where that is one alone, as in text."""
    ends = where.place[..., -1] >= 0
    asked = torch.where((ends & ends.sum(dim=1, keepdim=True).eq(1))[..., None], where.place, -1)
    return (where.relation < where.roles) | _occupied(where, asked)[:, None]


def _occupied(where: Coordinates, place: Int[Tensor, "batch chain role"]) -> Bool[Tensor, "batch pos"]:
    """The positions that these chains occupy; -1 is none."""
    places = place.flatten(1)
    return torch.zeros_like(where.role).scatter_add_(1, places.clamp(min=0), (places >= 0).long()) > 0
