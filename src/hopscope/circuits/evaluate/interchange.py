"""Interchange interventions (Geiger et al. 2021): attention is taken from sequences that differ in one respect.

**Rewired values** show what a circuit does not claim. In rewired sequences all symbols are as often as they were, but
the values of one pair are each another chain's. A row that attends everywhere alike averages what all chains hold, from
which an MLP could still pick one. So such rows write what they average while the values go round all chains: a model
that does not pick loses nothing.

**Rows elsewhere** show whether rows are found by content or by position. The rows of one pair are at the next chain's
positions, which says nothing about whose they are (Lemma 1). One layer's *pattern* is taken from there, each weight
moved to where its role is here; a head that rests at some position, whatever is there, then rests at another. Or what
it *writes* is taken; a head that copies the address of a row, for a later head to attend there, then copies the old
one. A position-based model loses in both ways. Where a position finds its own in one layer, it shows in the *choice* of
the head that attends to it later: the pattern on all that does not move, the rest spread as it is here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.circuits.evaluate.ablations import Interventions
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.role_maps import ChainsSeen, Coordinates
from hopscope.model.hooks import Hooks, PatchableModel, Pattern, PatternRecorder, Queried, Stream
from hopscope.problem.paths import HeadRow

NamedKeys = Mapping[HeadRow, Collection[int]]
"""Rows, and the roles of their own chain that each is said to attend to."""


@torch.no_grad()
def errors_alike(evaluator: Evaluator, interventions: Interventions, named: NamedKeys) -> Float[Tensor, " sequence"]:
    """The losses by sequence where some rows attend to all chains alike, but for the keys that are named."""
    return _errors(evaluator, interventions, lambda share: ChainsAlike(share.edit(interventions), named, share.where))


@torch.no_grad()
def errors_rewired(
    evaluator: Evaluator, interventions: Interventions, named: NamedKeys, off: Sequence[HeadRow], pair: int
) -> Float[Tensor, " sequence"]:
    """As `errors_alike`, where other rows, that are off, write what they average while a pair is rewired.

    The model must show what its attention writes.
    """
    model = evaluator.transformer
    assert isinstance(model, PatchableModel)

    def hooks(share: Evaluator) -> Hooks:
        def there(by: int) -> There:
            rewired = share.rewired(pair, by)
            other = rewired.sequences
            alike = ChainsAlike(other.edit(interventions), named, other.where)
            return There(model.embed(other.batch.inputs[None]), alike, other.where, rewired.at)

        inner = ChainsAlike(share.edit(interventions), named, share.where)
        return AveragedThere(model, inner, off, share.where, map(there, range(share.problem.chains)))

    return _errors(evaluator, interventions, hooks)


def _errors(
    evaluator: Evaluator, interventions: Interventions, hooks: Callable[[Evaluator], Hooks]
) -> Float[Tensor, " sequence"]:
    """The losses by sequence under hooks, which are made for each share of the sequences."""
    model, found = evaluator.transformer, []
    for share in evaluator.shares_for([interventions]):
        x = model.run(model.embed(share.batch.inputs[None]), hooks=hooks(share), reads=share.shape.reads)
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


@dataclass(frozen=True)
class There:
    """Sequences in which rows average, and for every position here the position there with the same part."""

    inputs: Stream
    hooks: Hooks
    where: Coordinates
    at: Int[Tensor, "batch pos"]


class AveragedThere(Hooks):
    """Hooks by which some rows write what they average in other sequences, on average over these; what they see of
    their own position stays as it is."""

    def __init__(
        self, model: PatchableModel, inner: Hooks, rows: Iterable[HeadRow], where: Coordinates, theres: Iterable[There]
    ) -> None:
        self._inner, self._rows, self._where = inner, [*rows], where
        self._written: dict[int, Stream] = {}
        count = 0
        for there in theres:
            self._add(model, there)
            count += 1
        self._written = {layer: written / count for layer, written in self._written.items()}

    def _add(self, model: PatchableModel, there: There) -> None:
        """Add what the rows write there."""
        x = there.inputs
        for layer in range(1 + max((row.layer for row in self._rows), default=-1)):
            seen = PatternRecorder(there.hooks)
            after = model.run(x, start=layer, stop=layer + 1, hooks=seen)
            if any(row.layer == layer for row in self._rows):
                alone = seen.patterns[0].masked_fill(~self._elsewhere(layer, there.where, seen.patterns[0]), 0.0)
                bias = model.attn_out_of(layer, torch.zeros_like(alone[:, :1]), x[:, :1])  # the same for all sequences
                written = model.attn_out_of(layer, alone, x) - bias
                written = written.gather(2, there.at[None, :, :, None].expand_as(written))
                self._written[layer] = self._written.get(layer, 0) + written
            x = after

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """The inner hooks' pattern; these rows attend to nothing but their own position."""
        pattern = self._inner.pattern(layer, pattern)
        if layer not in self._written:
            return pattern
        return pattern.masked_fill(self._elsewhere(layer, self._where, pattern), 0.0)

    def attn_out(self, layer: int, written: Queried) -> Queried:
        """What is written under the inner hooks, and what these rows average there."""
        written = self._inner.attn_out(layer, written)
        if layer not in self._written:
            return written
        return written + self._written[layer][:, :, -written.shape[2] :]

    def _elsewhere(self, layer: int, where: Coordinates, pattern: Pattern) -> Bool[Tensor, "1 batch head query key"]:
        """What these rows see of other positions than their own, in a layer's pattern."""
        concerned = torch.zeros(pattern.shape[2], where.roles, dtype=torch.bool, device=pattern.device)
        for row in self._rows:
            if row.layer == layer:
                concerned[row.head, row.query] = True
        queries, keys = pattern.shape[-2:]
        others = ~torch.eye(keys, dtype=torch.bool, device=pattern.device)[-queries:]
        return concerned[:, where.role[:, -queries:]].transpose(0, 1)[None, ..., None] & others


@torch.no_grad()
def highest_rise(evaluator: Evaluator, interventions: Interventions, layers: Iterable[int] | None) -> float | None:
    """The highest rise of a hop's loss with one layer's attention taken from where the rows of one pair are elsewhere.

    The attention is taken by what is written and by the whole pattern, of which the lower rise counts since each has
    harmless causes of its own, and by the choice among what does not move; the higher of these two counts. None with
    one chain: there is no other position then. Layers count from 0; None for all.
    """
    problem, wanted = evaluator.problem, None if layers is None else [*layers]
    if problem.chains < 2:
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
