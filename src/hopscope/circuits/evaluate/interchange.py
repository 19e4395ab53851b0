"""Interchange interventions (Geiger et al. 2021): attention is taken from sequences that differ in one respect.

**Rows elsewhere** show whether rows are found by content or by position. The rows of one pair are at the next chain's
positions, which says nothing about whose they are (Lemma 1). One layer's *pattern* is taken from there, each weight
moved to where its role is here; a head that rests at some position, whatever is there, then rests at another. Or what
it *writes* is taken; a head that copies the address of a row, for a later head to attend there, then copies the old
one. A position-based model loses in both ways. Where a position finds its own in one layer, it shows in the *choice* of
the head that attends to it later: the pattern on all that does not move, the rest spread as it is here.
"""

from __future__ import annotations

from collections.abc import Collection

import torch

from hopscope.circuits.evaluate.ablations import Interventions
from hopscope.circuits.evaluate.evaluator import Elsewhere, Evaluator
from hopscope.circuits.evaluate.patching import Patched
from hopscope.model.hooks import Hooks, Pattern, Queried

_LITTLE = 1e-6
"""Weight on a block up to which it says nothing about how it is spread over the block."""


@torch.no_grad()
def highest_rise(evaluator: Evaluator, interventions: Interventions, layers: Collection[int]) -> float | None:
    """The highest rise of a hop's loss with one layer's attention taken from where the rows of one pair are elsewhere.

    The attention is taken by what is written and by the whole pattern, of which the lower rise counts since each has
    harmless causes of its own, and by the choice among what does not move; the higher of these two counts. None with
    one chain, and in text: there is no other position then. Layers count from 0.
    """
    pairs = range(1, evaluator.problem.hops + 1) if evaluator.problem.chains > 1 else ()
    places = [elsewhere for elsewhere in map(evaluator.elsewhere, pairs) if elsewhere is not None]
    if not places:
        return None
    own, rises = evaluator.errors([interventions])[0].mean(dim=0), [0.0]
    for elsewhere in places:
        for taken in _taken_from_elsewhere(evaluator, interventions, elsewhere, layers):
            by_pattern, by_writing, by_choice = (evaluator.squared_errors(x).mean(dim=0) - own for x in taken)
            rises += torch.maximum(torch.minimum(by_pattern, by_writing), by_choice).tolist()
    return max(rises)


def _taken_from_elsewhere(
    evaluator: Evaluator, interventions: Interventions, elsewhere: Elsewhere, layers: Collection[int]
) -> list[tuple[Queried, Queried, Queried]]:
    """For each layer, the streams that the answers are read out of with its attention taken from elsewhere, at all
    positions that do not move: by pattern, by writing, by choice. Layers count from 0."""
    model, reads = evaluator.transformer, evaluator.shape.reads
    both, block = (evaluator, elsewhere.evaluator), elsewhere.block[None, :, :, None]
    here, there = (side.edit(interventions) if interventions else Hooks() for side in both)
    x, y = (model.embed(side.batch.inputs[None]) for side in both)
    found = []
    for layer in range(max(layers, default=-1) + 1):
        seen, own = Patched(there), Patched(here)
        y_after = model.run(y, start=layer, stop=layer + 1, hooks=seen)
        x_after = model.run(x, start=layer, stop=layer + 1, hooks=own)
        if layer in layers:
            pattern, before = _carried(seen.patterns[layer], elsewhere), own.patterns[layer]
            by_pattern, by_choice = (
                model.run(x, start=layer, hooks=Patched(here, {layer: taken}), reads=reads)
                for taken in (
                    torch.where(block[:, :, None], before, p) for p in (pattern, _chosen(pattern, before, elsewhere))
                )
            )
            if seen.written:
                written = torch.where(block, own.written[layer], seen.written[layer])
                by_writing = model.run(x, start=layer, hooks=Patched(here, written={layer: written}), reads=reads)
            else:  # a module that somebody else wrote shows only what the whole block adds
                added = torch.where(block, x_after, x + (y_after - y))
                by_writing = model.run(added, start=layer + 1, hooks=here, reads=reads)
            found.append((by_pattern, by_writing, by_choice))
        x, y = x_after, y_after
    return found


def _carried(pattern: Pattern, elsewhere: Elsewhere) -> Pattern:
    """A pattern from there, each weight moved to where the same query and key are here."""
    queries = elsewhere.at[None, :, None, :, None].expand(pattern.shape)
    keys = elsewhere.at[None, :, None, None, :].expand(pattern.shape)
    return pattern.gather(-2, queries).gather(-1, keys)


def _chosen(carried: Pattern, own: Pattern, elsewhere: Elsewhere) -> Pattern:
    """The carried pattern, its weight on the block spread over it as in the own pattern, if that has any there."""
    inside = elsewhere.block[None, :, None, None, :]
    there, here = (torch.where(inside, pattern, 0.0) for pattern in (carried, own))
    total, known = there.sum(dim=-1, keepdim=True), here.sum(dim=-1, keepdim=True)
    within = torch.where(known > _LITTLE, here * (total / known.clamp(min=_LITTLE)), there)
    return torch.where(inside, within, carried)
