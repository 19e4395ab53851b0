"""Rewired sequences: all symbols are as often as they were, but the values of one pair are each the next chain's.

A row that looks everywhere alike gathers what all chains hold. This says nothing about one of them, unless somebody
picks it out, as an MLP could by what each symbol was bound to. Let such rows gather in rewired sequences: who picks,
picks wrong, and a model that does not pick loses nothing. (To let them see other chains alone, as rules 9 did, takes
away more: a model whose heads copy what they look at is then told of every answer but the right one.)
Interchange interventions, Geiger et al. 2021.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from hopscope.circuits.coordinates import Coordinates
from hopscope.model.edit import Edit, Pattern, Queried, Readable, Recorder, Stream
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch
from hopscope.theory.path import Row

S = TypeVar("S")


@dataclass(frozen=True)
class Rewired(Generic[S]):
    """Sequences in which the values of one pair are other chains'.

    Attributes:
        sequences: the sequences with other values ("there").
        at: for every position of the original sequences ("here"), the position there with the same part.
    """

    sequences: S
    at: Int[Tensor, "batch pos"]


def values_rewired(problem: RetrievalProblem, batch: Batch, pair: int) -> Rewired[Batch]:
    """Sequences of vectors in which each chain's value of a pair (or fact) is the next chain's. Distractors stay.

        >>> problem = hs.RetrievalProblem(hops=2)
        >>> here = hs.sample(problem, 3, torch.Generator().manual_seed(0))
        >>> there = values_rewired(problem, here, 1).sequences
        >>> x1 = here.place[0, :, 1]  # where >x1 stands in the first sequence, chain by chain
        >>> torch.equal(there.inputs[0, x1[0], :4], here.inputs[0, x1[1], :4])
        True

    Args:
        problem: the problem that the sequences are of.
        batch: the sequences, with one leading axis.
        pair: the pair (or fact) whose values are others, counted from 1 in the order of look-up.
    """
    last = len(problem.facts.steps[pair - 1].keys)
    (value,) = (role for role, one in enumerate(problem.facts.places) if (one.step, one.member) == (pair, last))
    where = batch.place[:, : problem.chains, value, None].expand(-1, -1, problem.symbol_dim)
    symbols, codes = batch.inputs[..., : problem.symbol_dim], batch.inputs[..., problem.symbol_dim :]
    symbols = symbols.scatter(1, where, symbols.gather(1, where).roll(-1, dims=1))
    at = torch.arange(batch.inputs.shape[1], device=batch.place.device).repeat(len(batch.place), 1)
    return Rewired(Batch(torch.cat((symbols, codes), dim=-1), batch.targets, batch.place), at)


class GatheredThere(Edit):
    """Lets some rows write what they gather in rewired sequences; what they see of their own position stays as it is.

    Args:
        model: the model.
        inputs: the stream that enters its first layer there.
        edits: what is changed on the way through otherwise, here and there.
        rows: the rows.
        where: where everything stands, here and there.
        at: for every position here, the position there with the same part.
    """

    def __init__(
        self,
        model: Readable,
        inputs: Stream,
        edits: tuple[Edit, Edit],
        rows: Iterable[Row],
        where: tuple[Coordinates, Coordinates],
        at: Int[Tensor, "batch pos"],
    ) -> None:
        (self._inner, there), self._rows, (self._where, _) = edits, [*rows], where
        self._gathered: dict[int, Stream] = {}
        x = inputs
        for layer in range(1 + max((row.layer for row in self._rows), default=-1)):
            seen = Recorder(there)
            after = model.run(x, start=layer, stop=layer + 1, edit=seen)
            if any(row.layer == layer for row in self._rows):
                alone = seen.patterns[0].masked_fill(~self._elsewhere(layer, where[1], seen.patterns[0]), 0.0)
                wrote = model.written_of(layer, alone, x) - model.written_of(layer, torch.zeros_like(alone), x)
                self._gathered[layer] = wrote.gather(2, at[None, :, :, None].expand_as(wrote))
            x = after

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """The pattern of the inner edit; these rows look at nothing but their own position."""
        pattern = self._inner.pattern(layer, pattern)
        if layer not in self._gathered:
            return pattern
        return pattern.masked_fill(self._elsewhere(layer, self._where, pattern), 0.0)

    def written(self, layer: int, written: Queried) -> Queried:
        """What is written under the inner edit, and what these rows gather there."""
        written = self._inner.written(layer, written)
        if layer not in self._gathered:
            return written
        return written + self._gathered[layer][:, :, -written.shape[2] :]

    def _elsewhere(self, layer: int, where: Coordinates, pattern: Pattern) -> Bool[Tensor, "1 batch head query key"]:
        """What these rows see of other positions than their own, in a layer's pattern."""
        asked = torch.zeros(pattern.shape[2], where.roles, dtype=torch.bool, device=pattern.device)
        for row in self._rows:
            if row.layer == layer:
                asked[row.head, row.query] = True
        queries, keys = pattern.shape[-2:]
        others = ~torch.eye(keys, dtype=torch.bool, device=pattern.device)[-queries:]
        return asked[:, where.role[:, -queries:]].transpose(0, 1)[None, ..., None] & others
