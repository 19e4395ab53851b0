"""Rows elsewhere: the same chains, with the rows of one fact at other places, and attention as it is there.

A place tells nothing of whose row stands there (Lemma 1), so who looks for what rows hold looks at the same roles
wherever they stand. Attention from sequences in which each chain's row of one fact stands at the next chain's place,
each weight taken to where the role stands here, is then the attention that is here already. Who goes by place looks at
another row. (An interchange intervention on patterns, Geiger et al. 2021.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.model.edit import Edit, Pattern
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch

S = TypeVar("S")


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


class PatternsPut(Edit):
    """Patterns in the place of one layer's own.

    Args:
        layer: from 0.
        pattern: what is put there, every position a query.
        where: at which of them.
        inner: what is done besides; its patterns are replaced.
    """

    def __init__(
        self, layer: int, pattern: Pattern, where: Bool[Tensor, "batch pos"], inner: Edit | None = None
    ) -> None:
        self._layer, self._pattern, self._where, self._inner = layer, pattern, where, inner or Edit()

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """The inner edit's pattern, changed where it is that layer's."""
        pattern = self._inner.pattern(layer, pattern)
        if layer != self._layer:
            return pattern
        queries = pattern.shape[-2]
        where = self._where[None, :, None, -queries:, None]
        put: Float[Tensor, "model batch head query key"] = torch.where(where, self._pattern[..., -queries:, :], pattern)
        return put

    def written(self, layer: int, written: Tensor) -> Tensor:
        """The inner edit's."""
        return self._inner.written(layer, written)
