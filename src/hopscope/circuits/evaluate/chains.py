"""The keys of a query's own chain, and patterns that treat all chains alike or attend to other chains."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.model.role_maps import Coordinates

_NOTHING = 1e-6
"""A row with at most this share of its weight outside its own chain has no weight left that could be scaled."""


class SharedKeys(NamedTuple):
    """The keys that each position treats alike in all chains; `whole` marks positions where these are all others."""

    keys: Bool[Tensor, "batch key key"]
    whole: Bool[Tensor, "batch key 1"]


class ChainsSeen:
    """The chains of a batch, and the keys in them that each query sees."""

    def __init__(self, where: Coordinates) -> None:
        self._where = where
        self._roles = torch.nn.functional.one_hot(where.role).float()
        self._mine, self._in_chain = own_chain(where), _occupied(where, where.place)

    def shared(self, named: Mapping[int, Collection[int]]) -> SharedKeys:
        """For each query role in `named`, return all keys in chains except the query itself and its named roles."""
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
        """Return the pattern in which each role of the own chain gets its mean weight in the other visible chains.

        The weight is 0 if no other chain is visible. The row is then scaled to sum to 1, so that its sum does not show
        how much weight its own chain had. In a row with named keys, only the keys in `shared` are scaled, to their
        former sum. If no weight is left, the weight of each role is spread evenly over all chains or, if no other chain
        is visible, moves to the query's own position. If only one chain is asked about, as in text, it counts as the
        own chain of every row, because a position outside this chain could otherwise find the answer. The queries of
        `pattern` are the last positions.
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
        """Return the pattern with weight moved from roles of a query's own chain to the same roles of the other chains.

        `keys` maps each query role to the roles whose weight is moved. All other visible chains get the same weight; if
        no other chain is visible, the weight stays. The queries of `pattern` are the last positions.
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
        """Return, for every key, the mean weight on keys of its role in `among`, and whether there are such keys."""
        count = among.float() @ self._roles
        mean: Tensor = (pattern * among) @ self._roles / count.clamp(min=1.0) @ self._roles.mT
        return mean, (count @ self._roles.mT) > 0


def seen_elsewhere(where: Coordinates, query: int, key: int) -> float:
    """Return the share of the positions of a query role that see the key role in another chain."""
    others = where.allowed & (where.role == key)[:, None] & _occupied(where, where.place)[:, None] & ~own_chain(where)
    asked = others.any(dim=-1)[where.role == query].float()
    return float(asked.mean()) if len(asked) else 0.0


def own_chain(where: Coordinates) -> Bool[Tensor, "batch query key"]:
    """Return whether a key is in the query's chain or, if only one chain is asked about (as in text), in that chain."""
    ends = where.place[..., -1] >= 0
    asked = torch.where((ends & ends.sum(dim=1, keepdim=True).eq(1))[..., None], where.place, -1)
    return (where.relation < where.roles) | _occupied(where, asked)[:, None]


def _occupied(where: Coordinates, place: Int[Tensor, "batch chain role"]) -> Bool[Tensor, "batch pos"]:
    """Return the positions that these chains occupy; a place of -1 means no position."""
    places = place.flatten(1)
    return torch.zeros_like(where.role).scatter_add_(1, places.clamp(min=0), (places >= 0).long()) > 0
