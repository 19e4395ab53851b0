"""Controls for unclaimed information: rows look at all chains alike, or write what they gather in rewired sequences.

In rewired sequences all symbols are as often as they were, but the values of one pair are each another chain's. A row
that looks everywhere alike gathers what all chains hold. This says nothing about one of them, unless somebody picks it
out, as an MLP could by what each symbol was bound to. Let such rows write what they gather on average while the values
go round all chains, each of which then has each of them once: who picks, picks nothing, and a model that does not pick
loses nothing. Interchange interventions, Geiger et al. 2021.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.circuits.evaluate.ablations import Interventions
from hopscope.circuits.evaluate.chains import ChainsSeen, own_chain
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.role_maps import Coordinates
from hopscope.model.hooks import Hooks, PatchableModel, Pattern, PatternRecorder, Queried, Stream
from hopscope.model.skipped_heads import SkippingHooks, among_heads
from hopscope.problem.paths import HeadRow


@dataclass(frozen=True)
class There:
    """Sequences in which rows gather, and for every position here the position there with the same part."""

    inputs: Stream
    edit: Hooks
    where: Coordinates
    at: Int[Tensor, "batch pos"]


class GatheredThere(SkippingHooks):
    """Lets some rows write what they gather elsewhere, on average over some sequences; what they see of their own
    position stays as it is. `inner` are the hooks otherwise, `where` says where everything stands here."""

    def __init__(
        self, model: PatchableModel, inner: Hooks, rows: Iterable[HeadRow], where: Coordinates, theres: Iterable[There]
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
        some._rows = [HeadRow(layer, heads.index(row.head), row.query) for row in here]
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


NamedKeys = Mapping[HeadRow, Collection[int]]
"""Rows, and the roles of their own chain that each is said to attend to."""


@torch.no_grad()
def errors_alike(evaluator: Evaluator, program: Interventions, named: NamedKeys) -> Float[Tensor, " sequence"]:
    """The losses of a program by sequence where some rows look at all chains alike, but for what is said of them."""
    return _errors(evaluator, program, lambda share: ChainsAlike(share.edit(program), named, share.where))


@torch.no_grad()
def errors_rewired(
    evaluator: Evaluator, program: Interventions, named: NamedKeys, off: Sequence[HeadRow], pair: int
) -> Float[Tensor, " sequence"]:
    """As `errors_alike`, where other rows, that are off, write what they gather on average while a pair is rewired.

    Of a module that does not show what its attention writes, they look at other chains alone, which asks for more.
    """

    def edit(share: Evaluator) -> Hooks:
        inner = ChainsAlike(share.edit(program), named, share.where)
        if not isinstance(model := share.transformer, PatchableModel):
            return OtherChains(inner, off, share.where)

        def there(by: int) -> There:
            rewired = share.rewired(pair, by)
            other = rewired.sequences
            asked = ChainsAlike(other.edit(program), named, other.where)
            return There(model.embed(other.batch.inputs[None]), asked, other.where, rewired.at)

        return GatheredThere(model, inner, off, share.where, map(there, range(share.problem.chains)))

    return _errors(evaluator, program, edit)


def rewirings(evaluator: Evaluator) -> range:
    """The pairs for which `errors_rewired` is to be asked: all, or one where it is the same whatever the pair."""
    return range(1, 1 + (evaluator.problem.hops if isinstance(evaluator.transformer, PatchableModel) else 1))


def _errors(
    evaluator: Evaluator, program: Interventions, edit: Callable[[Evaluator], Hooks]
) -> Float[Tensor, " sequence"]:
    """The losses by sequence under an edit of a program, which is made for each share of the sequences."""
    model, found = evaluator.transformer, []
    for share in evaluator.shares_for([program]):
        x = model.run(model.embed(share.batch.inputs[None]), hooks=edit(share), reads=share.shape.reads)
        found.append(share.squared_errors(x))
    return torch.cat(found).double().mean(dim=1)


class ChainsAlike(SkippingHooks):
    """Hooks after which some rows look at all chains alike (`ChainsSeen.alike`), but for the keys that are named."""

    def __init__(self, inner: Hooks, named: NamedKeys, where: Coordinates) -> None:
        self._inner, self._chains = inner, ChainsSeen(where)
        self._named: dict[tuple[int, int], dict[int, Collection[int]]] = {}
        for row, keys in named.items():
            self._named.setdefault((row.layer, row.head), {})[row.query] = keys

    def among(self, layer: int, heads: Sequence[int]) -> Hooks | None:
        """The same of some heads of a layer, where the edit before can be had so."""
        inner, some = among_heads(self._inner, layer, heads), copy(self)
        if inner is None:
            return None
        some._inner = inner
        named = {at: self._named.get((layer, head)) for at, head in enumerate(heads)}
        some._named = {(layer, at): keys for at, keys in named.items() if keys is not None}
        return some

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """The pattern of the edit before, with chains alike in the rows that are asked for."""
        pattern = self._inner.pattern(layer, pattern).clone()
        for (at, head), named in self._named.items():
            if at == layer:
                pattern[:, :, head] = self._chains.alike(pattern[:, :, head], self._chains.shared(named))
        return pattern

    def attn_out(self, layer: int, written: Queried) -> Queried:
        """What the edit before makes of it."""
        return self._inner.attn_out(layer, written)


class OtherChains(Hooks):
    """Hooks after which some rows look at nothing of their own chain but their own position; the rest is scaled up."""

    def __init__(self, inner: Hooks, rows: Iterable[HeadRow], where: Coordinates) -> None:
        self._inner, self._where = inner, where
        self._rows: dict[int, list[HeadRow]] = {}
        for row in rows:
            self._rows.setdefault(row.layer, []).append(row)
        itself = torch.eye(where.relation.shape[-1], dtype=torch.bool, device=where.relation.device)
        self._gone = own_chain(where) & ~itself

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """The pattern of the edit before, without the own chain in the rows that are asked for."""
        pattern, queries = self._inner.pattern(layer, pattern), pattern.shape[-2]
        if layer not in self._rows:
            return pattern
        asked = torch.zeros(pattern.shape[2], self._where.roles, dtype=torch.bool, device=pattern.device)
        for row in self._rows[layer]:
            asked[row.head, row.query] = True
        of_row = asked[:, self._where.role[:, -queries:]].transpose(0, 1)
        rest = pattern.masked_fill(of_row[..., None] & self._gone[:, None, -queries:], 0.0)
        total = rest.sum(dim=-1, keepdim=True)
        return torch.where(of_row[..., None] & (total > 0), rest / torch.where(total > 0, total, 1.0), pattern)

    def attn_out(self, layer: int, written: Queried) -> Queried:
        """What the edit before makes of it."""
        return self._inner.attn_out(layer, written)
