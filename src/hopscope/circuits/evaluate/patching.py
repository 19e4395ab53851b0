"""Patching: measure the loss of a circuit when attention, or its input, is taken from another run of the model.

**Path patching** (Goldowsky-Dill et al. 2023) shows what a path is for. Each path of a circuit is cut at one use at a
time: the query, key or value of one later path, or the answer. In the cut stream, the row of the path is uniform, every
other head still writes what it wrote, and MLPs are computed again. Everything else reads the uncut stream. This is done
in the circuit with own patterns, so that a changed key shows as lost attention.

**Moved rows** (interchange interventions, Geiger et al. 2021) show whether rows are found by content or by position. In
a second run, the rows of one pair are at the positions of the next chain; positions do not show which chain a row
belongs to (Lemma 1). The attention of one layer is then taken from the second run in three ways. By *pattern*: each
weight is moved to the position that its role has here; this also affects heads that rest at a fixed position. By
*writing*: what the layer writes is taken; this also affects heads that copy the address of a row for a later head. The
loss of a position-based model rises in both ways. By *choice*: the pattern is taken for all keys that do not move, and
the weight on moved keys is distributed as in the first run. The loss then rises if a later head relies on pairs that an
earlier layer formed by position.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch

from hopscope.circuits.evaluate.ablations import UNIFORM, Interventions
from hopscope.circuits.evaluate.evaluator import Elsewhere, Evaluator
from hopscope.model.hooks import Hooks, PatchableModel, Patched, Pattern, Queried, Stream
from hopscope.problem.paths import AttentionPath, Feed, HeadRow, Into

_LITTLE = 1e-6
"""If the weight on the moved keys is at most this, its distribution over these keys is meaningless."""


class Patcher:
    """Cuts uses of paths in one circuit, whose active rows have the model's own patterns (`own`)."""

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
        """Return how later `paths` and the answer use the output of `row`; the use with the costliest cut is first."""
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
        """Cut one use: compute what the reader's row writes with its query, key or value taken from the cut stream."""
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
        """Return the streams into all layers and the read-out, with this row uniform and other heads' outputs fixed."""
        uniform = self._evaluator.edit({row: UNIFORM}).pattern(row.layer, self._clean.patterns[row.layer])
        written = self._transformer.attn_out_of(row.layer, uniform, self._streams[row.layer])
        streams = list(self._streams[: row.layer + 1])
        self._continue(streams, Patched(self._edit, written={**self._clean.written, row.layer: written}))
        return streams

    def _continue(self, streams: list[Stream], edit: Hooks) -> None:
        """Append to `streams` the streams that enter the remaining layers and the read-out."""
        for layer in range(len(streams) - 1, self._evaluator.shape.layers):
            streams.append(self._transformer.run(streams[-1], start=layer, stop=layer + 1, hooks=edit))

    def _alone(self, pattern: Pattern, row: HeadRow) -> Pattern:
        """Return the pattern with 0 in all other rows, so that only the output of this row is written."""
        alone = torch.zeros_like(pattern)
        here = (self._evaluator.where.role == row.query)[None, :, :, None]
        alone[:, :, row.head] = torch.where(here, pattern[:, :, row.head], 0.0)
        return alone

    def _attention(self, pattern: Pattern, path: AttentionPath) -> float:
        """Return the mean attention along a path, over the chains that have both roles."""
        place = self._evaluator.where.place[..., [path.query, path.key]]
        sequence, chain = (place >= 0).all(dim=-1).nonzero(as_tuple=True)
        query, key = place[sequence, chain].unbind(-1)
        return float(pattern[0, sequence, path.head, query, key].mean())

    def _loss(self, x: Stream) -> float:
        return float(self._evaluator.squared_errors(x).double().mean())


@torch.no_grad()
def highest_rise(evaluator: Evaluator, interventions: Interventions, layers: Collection[int]) -> float | None:
    """Return the highest rise of a hop's loss if one layer's attention is taken from a run with moved rows.

    Of the rises by pattern and by writing, only the lower one counts, because each of the two can have harmless causes.
    The rise by choice always counts. The result is None in text, and for a single chain. `layers` count from 0.
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
    """Return three final streams per layer, with its attention taken from `elsewhere` by pattern, writing and choice.

    The attention is taken at all positions that do not move. `layers` count from 0.
    """
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
            else:  # a torch module shows only what the whole block adds
                added = torch.where(block, x_after, x + (y_after - y))
                by_writing = model.run(added, start=layer + 1, hooks=here, reads=reads)
            found.append((by_pattern, by_writing, by_choice))
        x, y = x_after, y_after
    return found


def _carried(pattern: Pattern, elsewhere: Elsewhere) -> Pattern:
    """Return a pattern from `elsewhere` with each weight moved to the position that its query and key have here."""
    queries = elsewhere.at[None, :, None, :, None].expand(pattern.shape)
    keys = elsewhere.at[None, :, None, None, :].expand(pattern.shape)
    return pattern.gather(-2, queries).gather(-1, keys)


def _chosen(carried: Pattern, own: Pattern, elsewhere: Elsewhere) -> Pattern:
    """Return the carried pattern with its weight on moved keys distributed as in `own`, if `own` has weight on them."""
    inside = elsewhere.block[None, :, None, None, :]
    there, here = (torch.where(inside, pattern, 0.0) for pattern in (carried, own))
    total, known = there.sum(dim=-1, keepdim=True), here.sum(dim=-1, keepdim=True)
    within = torch.where(known > _LITTLE, here * (total / known.clamp(min=_LITTLE)), there)
    return torch.where(inside, within, carried)
