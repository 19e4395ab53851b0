"""Rewired sequences: all symbols are as often as they were, but the values of one pair are each another chain's.

A row that looks everywhere alike gathers what all chains hold. This says nothing about one of them, unless somebody
picks it out, as an MLP could by what each symbol was bound to. Let such rows write what they gather on average while
the values go round all chains, each of which then has each of them once: who picks, picks nothing, and a model that
does not pick loses nothing. (To let them see other chains alone, as rules 9 did, takes away more: a model whose heads
copy what they look at is then told of every answer but the right one. To let them gather where each value is the next
chain's and no average, as rules 10 did, tells something false: a row that looks one position back finds pairs there
which are none.) Interchange interventions, Geiger et al. 2021.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from hopscope.circuits.evaluate.coordinates import Coordinates
from hopscope.model.fast import SkippingHooks, among_heads
from hopscope.model.hooks import Hooks, PatchableModel, Pattern, PatternRecorder, Queried, Stream
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


def values_rewired(problem: RetrievalProblem, batch: Batch, pair: int, by: int = 1) -> Rewired[Batch]:
    """Sequences of vectors in which each chain's value of a pair (or fact) is another chain's. Distractors stay.

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
        by: how many chains further on that one stands; 0 for the sequences as they are.
    """
    last = len(problem.facts.steps[pair - 1].keys)
    (value,) = (role for role, one in enumerate(problem.facts.places) if (one.step, one.member) == (pair, last))
    where = batch.place[:, : problem.chains, value, None].expand(-1, -1, problem.symbol_dim)
    symbols, codes = batch.inputs[..., : problem.symbol_dim], batch.inputs[..., problem.symbol_dim :]
    symbols = symbols.scatter(1, where, symbols.gather(1, where).roll(-by, dims=1))
    at = torch.arange(batch.inputs.shape[1], device=batch.place.device).repeat(len(batch.place), 1)
    return Rewired(Batch(torch.cat((symbols, codes), dim=-1), batch.targets, batch.place), at)


@dataclass(frozen=True)
class There:
    """Sequences in which rows gather.

    Attributes:
        inputs: the stream that enters the first layer there.
        edit: what is changed on the way through there.
        where: where everything stands there.
        at: for every position here, the position there with the same part.
    """

    inputs: Stream
    edit: Hooks
    where: Coordinates
    at: Int[Tensor, "batch pos"]


class GatheredThere(SkippingHooks):
    """Lets some rows write what they gather elsewhere; what they see of their own position stays as it is.

    Args:
        model: the model.
        inner: what is changed on the way through otherwise.
        rows: the rows.
        where: where everything stands here.
        theres: the sequences in which they gather; what they write is the average over all of them.
    """

    def __init__(
        self, model: PatchableModel, inner: Hooks, rows: Iterable[Row], where: Coordinates, theres: Iterable[There]
    ) -> None:
        self._inner, self._rows, self._where = inner, [*rows], where
        self._gathered: dict[int, Stream] = {}
        count = 0
        for there in theres:
            self._gather(model, there)
            count += 1
        self._gathered = {layer: wrote / count for layer, wrote in self._gathered.items()}

    def _gather(self, model: PatchableModel, there: There) -> None:
        """Add what the rows write there."""
        x = there.inputs
        for layer in range(1 + max((row.layer for row in self._rows), default=-1)):
            seen = PatternRecorder(there.edit)
            after = model.run(x, start=layer, stop=layer + 1, hooks=seen)
            if any(row.layer == layer for row in self._rows):
                alone = seen.patterns[0].masked_fill(~self._elsewhere(layer, there.where, seen.patterns[0]), 0.0)
                bias = model.attn_out_of(layer, torch.zeros_like(alone[:, :1]), x[:, :1])  # the same for all sequences
                wrote = model.attn_out_of(layer, alone, x) - bias
                wrote = wrote.gather(2, there.at[None, :, :, None].expand_as(wrote))
                self._gathered[layer] = self._gathered[layer] + wrote if layer in self._gathered else wrote
            x = after

    def among(self, layer: int, heads: Sequence[int]) -> Hooks | None:
        """The same of some heads of a layer, where the inner edit can be had so."""
        inner, some = among_heads(self._inner, layer, heads), copy(self)
        if inner is None:
            return None
        some._inner = inner
        here = [row for row in self._rows if row.layer == layer and row.head in heads]
        some._rows = [Row(layer, heads.index(row.head), row.query) for row in here]
        return some

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """The pattern of the inner edit; these rows look at nothing but their own position."""
        pattern = self._inner.pattern(layer, pattern)
        if layer not in self._gathered:
            return pattern
        return pattern.masked_fill(self._elsewhere(layer, self._where, pattern), 0.0)

    def attn_out(self, layer: int, written: Queried) -> Queried:
        """What is written under the inner edit, and what these rows gather there."""
        written = self._inner.attn_out(layer, written)
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
