"""Interchange interventions (Geiger et al. 2021): attention is taken from sequences that differ in one respect.

**Rows elsewhere** show whether rows are found by content or by position. The rows of one pair are at the next chain's
positions, which says nothing about whose they are (Lemma 1). One layer's *pattern* is taken from there, each weight
moved to where its role is here; a head that rests at some position, whatever is there, then rests at another. Or what
it *writes* is taken; a head that copies the address of a row, for a later head to attend there, then copies the old
one. A position-based model loses in both ways. Where a position finds its own in one layer, it shows in the *choice* of
the head that attends to it later: the pattern on all that does not move, the rest spread as it is here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hopscope.circuits.evaluate.ablations import Interventions
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.role_maps import ChainsSeen, Coordinates
from hopscope.model.hooks import Hooks, Pattern, PatternRecorder, Queried, Stream
from hopscope.problem.paths import HeadRow

NamedKeys = Mapping[HeadRow, Collection[int]]
"""Rows, and the roles of their own chain that each is said to attend to."""


@torch.no_grad()
def errors_alike(evaluator: Evaluator, interventions: Interventions, named: NamedKeys) -> Float[Tensor, " sequence"]:
    """The losses by sequence where some rows attend to all chains alike, but for the keys that are named."""
    model, found = evaluator.transformer, []
    for share in evaluator.shares_for([interventions]):
        hooks = ChainsAlike(share.edit(interventions), named, share.where)
        x = model.run(model.embed(share.batch.inputs[None]), hooks=hooks, reads=share.shape.reads)
        found.append(share.squared_errors(x))
    return torch.cat(found).double().mean(dim=1)


class ChainsAlike(Hooks):
    """Hooks after which some rows attend to all chains alike (`ChainsSeen.alike`), but for the keys that are named."""

    def __init__(self, inner: Hooks, named: NamedKeys, where: Coordinates) -> None:
        self._inner, self._chains = inner, ChainsSeen(where)
        self._named: dict[tuple[int, int], dict[int, Collection[int]]] = {}
        for row, keys in named.items():
            self._named.setdefault((row.layer, row.head), {})[row.query] = keys

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """The inner hooks' pattern, alike in these rows."""
        pattern = self._inner.pattern(layer, pattern).clone()
        for (at, head), named in self._named.items():
            if at == layer:
                pattern[:, :, head] = self._chains.alike(pattern[:, :, head], self._chains.shared(named))
        return pattern

    def attn_out(self, layer: int, written: Queried) -> Queried:
        """What the inner hooks make of it."""
        return self._inner.attn_out(layer, written)


@torch.no_grad()
def highest_rise(evaluator: Evaluator, interventions: Interventions, layers: Iterable[int] | None) -> float | None:
    """The highest rise of a hop's loss with one layer's attention taken from where the rows of one pair are elsewhere.

    The attention is taken by what is written and by the whole pattern, of which the lower rise counts since each has
    harmless causes of its own, and by the choice among what does not move; the higher of these two counts. None with
    one chain, and in text: there is no other position then. Layers count from 0; None for all.
    """
    problem, wanted = evaluator.problem, None if layers is None else [*layers]
    if problem.chains < 2 or evaluator.elsewhere(1) is None:
        return None
    own = evaluator.errors([interventions])[0].mean(dim=0)
    rises = [0.0]
    for pair in range(1, problem.hops + 1):
        for taken in _taken_from_elsewhere(evaluator, interventions, pair, wanted):
            by_pattern, by_writing, by_choice = (evaluator.squared_errors(x).mean(dim=0) - own for x in taken)
            rises += torch.maximum(torch.minimum(by_pattern, by_writing), by_choice).tolist()
    return max(rises)


class _Taken(NamedTuple):
    """The stream that the answers are read out of, one layer's attention taken in three ways."""

    by_pattern: Queried
    by_writing: Queried
    by_choice: Queried


class _Recorder(PatternRecorder):
    """Records what attention writes too; None where a module that somebody else wrote does not show it."""

    written: Queried | None = None

    def attn_out(self, layer: int, written: Queried) -> Queried:
        self.written = super().attn_out(layer, written)
        return self.written


class _FromElsewhere(Hooks):
    """Replaces one layer's pattern, or what its attention writes, at the positions `where`."""

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
        own, queries = self._inner.pattern(layer, pattern), pattern.shape[-2]
        if layer != self._layer or self._pattern is None:
            return own
        return torch.where(self._where[None, :, None, -queries:, None], self._pattern[..., -queries:, :], own)

    def attn_out(self, layer: int, written: Queried) -> Queried:
        own, queries = self._inner.attn_out(layer, written), written.shape[2]
        if layer != self._layer or self._written is None:
            return own
        return torch.where(self._where[None, :, -queries:, None], self._written[:, :, -queries:], own)


def _taken_from_elsewhere(
    evaluator: Evaluator, interventions: Interventions, pair: int, layers: Collection[int] | None
) -> list[_Taken]:
    """Take one layer's attention after the other from where the rows of a pair are elsewhere, at all other positions.

    Pairs count from 1, layers from 0; None for all.
    """
    model, elsewhere, reads = evaluator.transformer, evaluator.elsewhere(pair), evaluator.shape.reads
    assert elsewhere is not None
    both = evaluator, elsewhere.sequences
    here, there = (side.edit(interventions) if interventions else Hooks() for side in both)
    x, y = (model.embed(side.batch.inputs[None]) for side in both)
    wanted, found = {*range(evaluator.shape.layers)} if layers is None else {*layers}, []
    for layer in range(max(wanted, default=-1) + 1):
        seen, own = _Recorder(there), PatternRecorder(here)
        y_after = model.run(y, start=layer, stop=layer + 1, hooks=seen)
        x_after = model.run(x, start=layer, stop=layer + 1, hooks=own)
        if layer in wanted:
            pattern = elsewhere.carried(seen.patterns[0])
            by_pattern, by_choice = (
                model.run(
                    x, start=layer, hooks=_FromElsewhere(layer, ~elsewhere.block, here, pattern=taken), reads=reads
                )
                for taken in (pattern, elsewhere.chosen(pattern, own.patterns[0]))
            )
            if seen.written is None:  # take what the whole block adds, since only that is seen
                added = torch.where(elsewhere.block[None, :, :, None], x_after, x + (y_after - y))
                by_writing = model.run(added, start=layer + 1, hooks=here, reads=reads)
            else:
                put = _FromElsewhere(layer, ~elsewhere.block, here, written=seen.written)
                by_writing = model.run(x, start=layer, hooks=put, reads=reads)
            found.append(_Taken(by_pattern, by_writing, by_choice))
        x, y = x_after, y_after
    return found
