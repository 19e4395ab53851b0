"""Rows elsewhere: the same chains, with the rows of one pair at other places, and what attention does there.

A place says nothing about which chain's row stands there (Lemma 1), so a head that looks for what rows hold looks at
the same roles wherever they stand. Take what a layer does from sequences in which each chain's row of one pair stands
at the next chain's place, and such a model loses nothing. There are two ways to take it, and each has a harmless cause
of loss that the other does not have. If the layer's *pattern* is taken, each weight moved to where its role stands
here, a head that rests at some place, whatever stands there, rests at another, which may confuse later heads. If what
the layer *writes* is taken, a head that fetches the address of a row, for a later head to look there, fetches the
address from before. A model that reads places, and chooses among what was read by which place is its own, loses in both
ways. Where a position reads and finds its own place in one layer, it shows in the *choice* of the head that looks at it
later: the pattern on all that does not move, with the weight on the moved rows spread as it is here, which leaves heads
that rest and heads that fetch as they are. (Interchange interventions, Geiger et al. 2021.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from hopscope.model.hooks import Hooks, Pattern, Queried, Stream
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch

S = TypeVar("S")

_LITTLE = 1e-6
"""Weight on a block up to which it says nothing about how it is spread over the block."""


@dataclass(frozen=True)
class Elsewhere(Generic[S]):
    """Sequences in which the rows of one pair stand elsewhere.

    Attributes:
        sequences: the sequences in which they stand elsewhere ("there").
        at: for every position of the original sequences ("here"), the position there that holds the same thing.
        block: whether a position here belongs to the block whose rows change places.
    """

    sequences: S
    at: Int[Tensor, "batch pos"]
    block: Bool[Tensor, "batch pos"]

    def brought(self, pattern: Pattern) -> Pattern:
        """A pattern from there, each weight moved to where the same query and key stand here."""
        queries = self.at[None, :, None, :, None].expand(pattern.shape)
        keys = self.at[None, :, None, None, :].expand(pattern.shape)
        return pattern.gather(-2, queries).gather(-1, keys)

    def chosen(self, brought: Pattern, own: Pattern) -> Pattern:
        """The brought pattern, its weight on the block spread over it as in the own pattern, if that has any there."""
        inside = self.block[None, :, None, None, :]
        theirs, mine = (torch.where(inside, one, 0.0) for one in (brought, own))
        total, known = theirs.sum(dim=-1, keepdim=True), mine.sum(dim=-1, keepdim=True)
        within = torch.where(known > _LITTLE, mine * (total / known.clamp(min=_LITTLE)), theirs)
        return torch.where(inside, within, brought)


def pair_elsewhere(problem: RetrievalProblem, batch: Batch, pair: int) -> Elsewhere[Batch]:
    """Sequences of vectors with each chain's row of a pair (or fact) at the next chain's place. Distractors stay.

        >>> problem = hs.RetrievalProblem(hops=2)
        >>> here = hs.sample(problem, 3, torch.Generator().manual_seed(0))
        >>> there = pair_elsewhere(problem, here, 1).sequences
        >>> torch.equal(there.place[:, 0, 0], here.place[:, 1, 0])  # x0> of chain 1 where that of chain 2 stood
        True

    Args:
        problem: the problem that the sequences are of.
        batch: the sequences, with one leading axis.
        pair: the pair (or fact) whose rows are moved, counted from 1 in the order of look-up.
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


class FromElsewhere(Hooks):
    """Replaces one layer's pattern, or what its attention writes, by a given one.

    Args:
        layer: number of the layer, from 0.
        where: the positions at which it is replaced.
        inner: the edit that is made besides.
        pattern: the pattern that is put there, with every position as a query; None for the layer's own.
        written: what attention is to write there, for every position; None for what the layer itself writes.
    """

    def __init__(
        self,
        layer: int,
        where: Bool[Tensor, "batch pos"],
        inner: Hooks,
        *,
        pattern: Pattern | None = None,
        written: Stream | None = None,
    ) -> None:
        self._layer, self._where, self._inner = layer, where, inner
        self._pattern, self._written = pattern, written

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """The inner edit's pattern, replaced if it is that layer's."""
        own, queries = self._inner.pattern(layer, pattern), pattern.shape[-2]
        if layer != self._layer or self._pattern is None:
            return own
        where = self._where[None, :, None, -queries:, None]
        return torch.where(where, self._pattern[..., -queries:, :], own)

    def attn_out(self, layer: int, written: Queried) -> Queried:
        """What attention writes under the inner edit, replaced if it is that layer's."""
        own, queries = self._inner.attn_out(layer, written), written.shape[2]
        if layer != self._layer or self._written is None:
            return own
        return torch.where(self._where[None, :, -queries:, None], self._written[:, :, -queries:], own)
