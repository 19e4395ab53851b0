"""Rows elsewhere: the same chains, with the rows of one fact at other places, and what attention does there.

A place tells nothing of whose row stands there (Lemma 1), so who looks for what rows hold looks at the same roles
wherever they stand. Take what a layer does from sequences in which each chain's row of one fact stands at the next
chain's place, and nothing is lost. There are two ways to take it. Its *pattern*, each weight to where its role stands
here: a head that rests at some place, whoever stands there, then rests at another, which may confuse. What it *writes*:
a head that fetches the address of a row, for a later one to look there, then fetches that of before. Both are harmless,
and each shows in one of the ways alone. Who reads places, and chooses among what was read by which place is its own,
loses both ways; or, where a position reads and finds its own place in one layer, by the *choice* of who looks at it
later: the pattern on all that does not move, with the weight on the moved rows spread as it is here, which leaves those
who rest and those who fetch alone. (Interchange interventions, Geiger et al. 2021.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from hopscope.model.edit import Edit, Pattern, Queried, Stream
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch

S = TypeVar("S")

_LITTLE = 1e-6
"""Weight on a block that tells nothing of how it is spread."""


@dataclass(frozen=True)
class Elsewhere(Generic[S]):
    """Sequences in which rows of one fact stand elsewhere.

    Attributes:
        sequences: those.
        at: for every position here, at which one there the same thing stands.
        block: whether a position here is one of the block whose rows change places.
    """

    sequences: S
    at: Int[Tensor, "batch pos"]
    block: Bool[Tensor, "batch pos"]

    def brought(self, pattern: Pattern) -> Pattern:
        """A pattern from there, each weight where the same things stand here."""
        queries = self.at[None, :, None, :, None].expand(pattern.shape)
        keys = self.at[None, :, None, None, :].expand(pattern.shape)
        return pattern.gather(-2, queries).gather(-1, keys)

    def chosen(self, brought: Pattern, own: Pattern) -> Pattern:
        """What was brought, but with its weight within the block spread over it as one's own is, where that has any."""
        inside = self.block[None, :, None, None, :]
        theirs, mine = (torch.where(inside, one, 0.0) for one in (brought, own))
        total, known = theirs.sum(dim=-1, keepdim=True), mine.sum(dim=-1, keepdim=True)
        within = torch.where(known > _LITTLE, mine * (total / known.clamp(min=_LITTLE)), theirs)
        return torch.where(inside, within, brought)


def rows_elsewhere(problem: RetrievalProblem, batch: Batch, fact: int) -> Elsewhere[Batch]:
    """Sequences of vectors with each chain's row of a fact at the next chain's place. Distractors stay.

        >>> problem = hs.RetrievalProblem(hops=2)
        >>> here = hs.sample(problem, 3, torch.Generator().manual_seed(0))
        >>> there = rows_elsewhere(problem, here, 1).sequences
        >>> torch.equal(there.place[:, 0, 0], here.place[:, 1, 0])  # x0> of chain 1 where that of chain 2 stood
        True

    Args:
        problem: whose sequences they are.
        batch: the sequences; one leading axis.
        fact: whose rows, in the order of look-up from 1.
    """
    of_fact = torch.tensor([role.step == fact for role in problem.facts.places], device=batch.place.device)
    place = batch.place.clone()
    rows = place[:, : problem.chains, of_fact]
    place[:, : problem.chains, of_fact] = rows.roll(-1, dims=1)
    at = torch.arange(batch.inputs.shape[1], device=place.device).repeat(len(place), 1)
    at.scatter_(1, rows.flatten(1), rows.roll(-1, dims=1).flatten(1))
    symbols, codes = batch.inputs[..., : problem.symbol_dim], batch.inputs[..., problem.symbol_dim :]
    stood = at.argsort(dim=-1)[..., None].expand(symbols.shape)
    inputs = torch.cat((symbols.gather(1, stood), codes), dim=-1)
    return Elsewhere(Batch(inputs, batch.targets, place), at, of_fact[batch.role])


class FromElsewhere(Edit):
    """One layer's pattern, or what it writes, in the place of its own.

    Args:
        layer: from 0.
        where: at which positions.
        inner: what is done besides.
        pattern: that is put there, every position a query; None for its own.
        written: that is put there, every position; None for its own.
    """

    def __init__(
        self,
        layer: int,
        where: Bool[Tensor, "batch pos"],
        inner: Edit,
        *,
        pattern: Pattern | None = None,
        written: Stream | None = None,
    ) -> None:
        self._layer, self._where, self._inner = layer, where, inner
        self._pattern, self._written = pattern, written

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """The inner edit's pattern, changed where it is that layer's."""
        own, queries = self._inner.pattern(layer, pattern), pattern.shape[-2]
        if layer != self._layer or self._pattern is None:
            return own
        where = self._where[None, :, None, -queries:, None]
        return torch.where(where, self._pattern[..., -queries:, :], own)

    def written(self, layer: int, written: Queried) -> Queried:
        """What the inner edit leaves of it, changed where it is that layer's."""
        own, queries = self._inner.written(layer, written), written.shape[2]
        if layer != self._layer or self._written is None:
            return own
        return torch.where(self._where[None, :, -queries:, None], self._written[:, :, -queries:], own)
