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

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hopscope.circuits.evaluate.ablations import Interventions
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.model.hooks import Hooks, Pattern, PatternRecorder, Queried, Stream


class FromElsewhere(Hooks):
    """Replaces one layer's pattern, or what its attention writes, at some positions; `inner` are the other hooks."""

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


class Taken(NamedTuple):
    """The stream that the answers are read out of, with one layer's attention taken from elsewhere in three ways: its
    pattern, what it writes, or its pattern on what does not move. The layer counts from 0."""

    layer: int
    by_pattern: Queried
    by_writing: Queried
    by_choice: Queried


class _WrittenToo(PatternRecorder):
    """Keeps what a layer's attention writes too; None where a module that somebody else wrote does not show it."""

    writes: Queried | None = None

    def attn_out(self, layer: int, written: Queried) -> Queried:
        self.writes = super().attn_out(layer, written)
        return self.writes


@torch.no_grad()
def taken_from_elsewhere(
    evaluator: Evaluator, program: Interventions, pair: int, layers: Iterable[int] | None = None
) -> list[Taken]:
    """Take one layer's attention after the other from sequences in which the rows of a pair stand elsewhere.

    It is taken at all positions but those of the rows that move, under one program here and there. Pairs count from 1,
    layers from 0; None for all. Some six copies of a pattern are held at once.
    """
    model, elsewhere, reads = evaluator.transformer, evaluator.elsewhere(pair), evaluator.shape.reads
    here, there = (one.edit(program) if program else Hooks() for one in (evaluator, elsewhere.sequences))
    x, y = (model.embed(one.batch.inputs[None]) for one in (evaluator, elsewhere.sequences))
    wanted, found = {*range(evaluator.shape.layers)} if layers is None else {*layers}, []
    for layer in range(max(wanted, default=-1) + 1):
        seen, own = _WrittenToo(there), PatternRecorder(here)
        y_after, x_after = (model.run(one, start=layer, stop=layer + 1, hooks=e) for one, e in ((y, seen), (x, own)))
        if layer in wanted:
            pattern = elsewhere.brought(seen.patterns[0])
            by_pattern, by_choice = (
                model.run(x, start=layer, hooks=FromElsewhere(layer, ~elsewhere.block, here, pattern=one), reads=reads)
                for one in (pattern, elsewhere.chosen(pattern, own.patterns[0]))
            )
            if seen.writes is None:  # take what the whole block adds, since only that is seen
                added = torch.where(elsewhere.block[None, :, :, None], x_after, x + (y_after - y))
                by_writing = model.run(added, start=layer + 1, hooks=here, reads=reads)
            else:
                put = FromElsewhere(layer, ~elsewhere.block, here, written=seen.writes)
                by_writing = model.run(x, start=layer, hooks=put, reads=reads)
            found.append(Taken(layer, by_pattern, by_writing, by_choice))
        x, y = x_after, y_after
    return found


@torch.no_grad()
def highest_rise(evaluator: Evaluator, program: Interventions, layers: Iterable[int] | None) -> float | None:
    """The highest rise of a hop's loss with one layer's attention taken from where the rows of one pair are elsewhere.

    The attention is taken by what is written and by the whole pattern, of which the lower rise counts since each has
    harmless causes of its own, and by the choice among what does not move; the higher of these two counts. None with
    one chain: there is no other position then.
    """
    problem, wanted = evaluator.problem, None if layers is None else [*layers]
    if problem.chains < 2:
        return None
    own = evaluator.errors([program])[0].mean(dim=0)
    rises = [0.0]
    for pair in range(1, problem.hops + 1):
        for taken in taken_from_elsewhere(evaluator, program, pair, wanted):
            by_pattern, by_writing, by_choice = (_rises(evaluator, stream, own) for stream in taken[1:])
            rises += torch.maximum(torch.minimum(by_pattern, by_writing), by_choice).tolist()
    return max(rises)


def _rises(evaluator: Evaluator, stream: Queried, own: Float[Tensor, " hop"]) -> Float[Tensor, " hop"]:
    return evaluator.squared_errors(stream).mean(dim=0) - own
