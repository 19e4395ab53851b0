"""Positions named by chain and role, so that attention can be described whatever the shuffle.

A key stands to a query in one of 2(2D + 1) relations: same chain and role r (relation r), or another chain and role r
(relation 2D + 1 + r). Attention maps are averaged over relations, never over positions: the chains are shuffled, so an
average over positions washes out everything a head does by content.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@runtime_checkable
class Sequences(Protocol):
    """What an evaluator needs of a batch: inputs, and where every role of every chain stands in them."""

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
    """Where everything stands in a batch.

    Attributes:
        role: the role of every position.
        relation: the relation in which the key (last axis) stands to the query (the axis before it).
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
