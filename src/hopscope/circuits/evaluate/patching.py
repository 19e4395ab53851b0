"""Patches: what a circuit loses with attention, or what reads it, taken from another run of the model.

**Path patching** (Goldowsky-Dill et al. 2023) shows what a path is for. Each path of a circuit is cut at one use at a
time: the query, key or value of one later path, or the answer. The cut stream is the one in which the path's row is
uniform and every other head still writes what it wrote; MLPs, where there are any, are computed again. Everything else
reads the uncut stream. This is done in the circuit with own patterns, so that a changed key shows as lost attention.

**Rows elsewhere** (interchange interventions, Geiger et al. 2021) show whether rows are found by content or by
position. The rows of one pair are at the next chain's positions, which says nothing about whose they are (Lemma 1). One
layer's *pattern* is taken from there, each weight moved to where its role is here; a head that rests at some position,
whatever is there, then rests at another. Or what it *writes* is taken; a head that copies the address of a row, for a
later head to attend there, then copies the old one. A position-based model loses in both ways. Where a position finds
its own in one layer, it shows in the *choice* of the head that attends to it later: the pattern on all that does not
move, the rest spread as it is here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch

from hopscope.circuits.evaluate.ablations import UNIFORM, Interventions
from hopscope.circuits.evaluate.evaluator import Elsewhere, Evaluator
from hopscope.model.hooks import Hooks, PatchableModel, Patched, Pattern, Queried, Stream
from hopscope.problem.paths import AttentionPath, Feed, HeadRow, Into

_LITTLE = 1e-6
"""Weight on a block up to which it says nothing about how it is spread over the block."""


class Patcher:
    """Cuts uses of paths in one circuit, with the model's own patterns in its active rows (`own`)."""

    def __init__(self, evaluator: Evaluator, transformer: PatchableModel, own: Interventions) -> None:
        self._evaluator, self._transformer = evaluator, transformer
        self._edit = evaluator.edit(own)
        self._clean = Patched(self._edit)
        with torch.no_grad():
            self._streams = [self._transformer.embed(evaluator.batch.inputs[None])]
            self._continue(self._streams, self._clean)
            self.loss = self._loss(self._streams[-1])

    @torch.no_grad()
    def uses(self, paths: Sequence[AttentionPath], row: HeadRow) -> list[Feed]:
        """What reads from the query position of `row`: the later of `paths`, and the answer; costliest cut first."""
        cut = self._cut(row)
        found = []
        for reader in paths:
            if reader.layer > row.layer:
                if reader.query == row.query:
                    found.append(self._use("query", cut, reader))
                if reader.key == row.query:
                    found += [self._use(into, cut, reader) for into in ("key", "value")]
        if row.query == self._evaluator.where.roles - 1:
            found.append(Feed("answer", change=self._loss(cut[-1]) - self.loss))
        return sorted(found, key=lambda use: -use.change)

    def _use(self, into: Into, cut: list[Stream], reader: AttentionPath) -> Feed:
        """Cut one use: what the reader's row writes is computed with one of its three inputs from the cut stream."""
        layer, model = reader.layer, self._transformer
        clean, spoiled = self._streams[layer], cut[layer]
        own = changed = self._clean.patterns[layer]
        if into != "value":
            query, key = (spoiled, clean) if into == "query" else (clean, spoiled)
            changed = model.pattern_of(layer, query, key)
        value = spoiled if into == "value" else clean
        before = model.attn_out_of(layer, self._alone(own, reader.row), clean)
        after = model.attn_out_of(layer, self._alone(changed, reader.row), value)
        patched = Patched(self._edit, written={layer: self._clean.written[layer] + after - before})
        x = self._transformer.run(self._streams[layer], start=layer, hooks=patched)
        lost = self._attention(own, reader) - self._attention(changed, reader)
        return Feed(into, reader, self._loss(x) - self.loss, lost)

    def _cut(self, row: HeadRow) -> list[Stream]:
        """The streams into every layer and the read-out if this row is uniform and other heads write what they did."""
        uniform = self._evaluator.edit({row: UNIFORM}).pattern(row.layer, self._clean.patterns[row.layer])
        written = self._transformer.attn_out_of(row.layer, uniform, self._streams[row.layer])
        streams = list(self._streams[: row.layer + 1])
        self._continue(streams, Patched(self._edit, written={**self._clean.written, row.layer: written}))
        return streams

    def _continue(self, streams: list[Stream], edit: Hooks) -> None:
        """Add to the streams that enter the first layers those that enter all later ones and the read-out."""
        for layer in range(len(streams) - 1, self._evaluator.shape.layers):
            streams.append(self._transformer.run(streams[-1], start=layer, stop=layer + 1, hooks=edit))

    def _alone(self, pattern: Pattern, row: HeadRow) -> Pattern:
        """The pattern in this row and 0 everywhere else, so that what is written is this row's part."""
        alone = torch.zeros_like(pattern)
        here = (self._evaluator.where.role == row.query)[None, :, :, None]
        alone[:, :, row.head] = torch.where(here, pattern[:, :, row.head], 0.0)
        return alone

    def _attention(self, pattern: Pattern, path: AttentionPath) -> float:
        """Mean attention along a path, over the chains that have both roles."""
        place = self._evaluator.where.place[..., [path.query, path.key]]
        sequence, chain = (place >= 0).all(dim=-1).nonzero(as_tuple=True)
        query, key = place[sequence, chain].unbind(-1)
        return float(pattern[0, sequence, path.head, query, key].mean())

    def _loss(self, x: Stream) -> float:
        return float(self._evaluator.squared_errors(x).double().mean())


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
