"""Counterfactual sequences: the rows of one pair at other places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from hopscope.model.hooks import Pattern
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch

S = TypeVar("S")

_LITTLE = 1e-6
"""Weight on a block up to which it says nothing about how it is spread over the block."""


@dataclass(frozen=True)
class Elsewhere(Generic[S]):
    """Sequences ("there") in which the rows of one pair stand elsewhere than in the original ones ("here").

    `at` is, for every position here, the one there that holds the same thing; `block` says which positions here change.
    """

    sequences: S
    at: Int[Tensor, "batch pos"]
    block: Bool[Tensor, "batch pos"]

    def carried(self, pattern: Pattern) -> Pattern:
        """A pattern from there, each weight moved to where the same query and key stand here."""
        queries = self.at[None, :, None, :, None].expand(pattern.shape)
        keys = self.at[None, :, None, None, :].expand(pattern.shape)
        return pattern.gather(-2, queries).gather(-1, keys)

    def chosen(self, carried: Pattern, own: Pattern) -> Pattern:
        """The carried pattern, its weight on the block spread over it as in the own pattern, if that has any there."""
        inside = self.block[None, :, None, None, :]
        there, here = (torch.where(inside, pattern, 0.0) for pattern in (carried, own))
        total, known = there.sum(dim=-1, keepdim=True), here.sum(dim=-1, keepdim=True)
        within = torch.where(known > _LITTLE, here * (total / known.clamp(min=_LITTLE)), there)
        return torch.where(inside, within, carried)


def pair_elsewhere(problem: RetrievalProblem, batch: Batch, pair: int) -> Elsewhere[Batch]:
    """Sequences of vectors with each chain's row of a pair (or fact) at the next chain's place. Distractors stay.

        >>> problem = hs.RetrievalProblem(hops=2)
        >>> here = hs.sample(problem, 3, torch.Generator().manual_seed(0))
        >>> there = pair_elsewhere(problem, here, 1).sequences
        >>> torch.equal(there.place[:, 0, 0], here.place[:, 1, 0])  # x0> of chain 1 where that of chain 2 stood
        True

    Pairs (or facts) count from 1 in the order of look-up.
    """
    moves = [problem.fact_of(role) == pair for role in range(len(problem.roles))]
    of_pair = torch.tensor(moves, device=batch.place.device)
    place = batch.place.clone()
    rows = place[:, : problem.chains, of_pair]
    place[:, : problem.chains, of_pair] = rows.roll(-1, dims=1)
    at = torch.arange(batch.inputs.shape[1], device=place.device).repeat(len(place), 1)
    at.scatter_(1, rows.flatten(1), rows.roll(-1, dims=1).flatten(1))
    symbols, codes = batch.inputs[..., : problem.symbol_dim], batch.inputs[..., problem.symbol_dim :]
    stood = at.argsort(dim=-1)[..., None].expand(symbols.shape)
    inputs = torch.cat((symbols.gather(1, stood), codes), dim=-1)
    return Elsewhere(Batch(inputs, batch.targets, place), at, of_pair[batch.role])
