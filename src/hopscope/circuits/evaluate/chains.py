"""Which keys are of a query's own chain, and patterns that tell chains apart no longer, or attend to others instead."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.model.role_maps import Coordinates

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
