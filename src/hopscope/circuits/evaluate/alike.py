"""Do rows whose own pattern stands in a circuit, or that are off in it, bring more than it says? Then it breaks once
the former look at all chains alike, and the latter gather in rewired sequences."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.evaluate.chains import ChainsSeen, own_chain
from hopscope.circuits.evaluate.coordinates import Coordinates
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.hypotheses import Draft
from hopscope.circuits.evaluate.rewired import GatheredThere, There
from hopscope.model.fast import SkippingHooks, among_heads
from hopscope.model.hooks import Hooks, PatchableModel, Pattern, Queried
from hopscope.theory.path import Row

NamedKeys = Mapping[Row, Collection[int]]
"""Rows, and the roles of their own chain that each is said to attend to."""


@torch.no_grad()
def errors_alike(evaluator: Evaluator, program: Draft, named: NamedKeys) -> Float[Tensor, " sequence"]:
    """The losses of a program by sequence where some rows look at all chains alike, but for what is said of them."""
    return _errors(evaluator, program, lambda share: ChainsAlike(share.edit(program), named, share.where))


@torch.no_grad()
def errors_rewired(
    evaluator: Evaluator, program: Draft, named: NamedKeys, off: Sequence[Row], pair: int
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


def _errors(evaluator: Evaluator, program: Draft, edit: Callable[[Evaluator], Hooks]) -> Float[Tensor, " sequence"]:
    """The losses by sequence under an edit of a program, which is made for each share of the sequences."""
    model, found = evaluator.transformer, []
    for share in evaluator.shares_for([program]):
        x = model.run(model.embed(share.batch.inputs[None]), hooks=edit(share), reads=share.shape.reads)
        found.append(share.squared_errors(x))
    return torch.cat(found).double().mean(dim=1)


class ChainsAlike(SkippingHooks):
    """An edit after which some rows look at all chains alike (`ChainsSeen.alike`), but for the keys that are named.

    Args:
        inner: the edit before it.
        named: the rows, and the keys that each is said to attend to.
        where: where everything stands in the batch.
    """

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
    """An edit after which some rows look at nothing of their own chain but their own position; the rest is scaled up.

    Args:
        inner: the edit before it.
        rows: the rows.
        where: where everything stands in the batch.
    """

    def __init__(self, inner: Hooks, rows: Iterable[Row], where: Coordinates) -> None:
        self._inner, self._where = inner, where
        self._rows: dict[int, list[Row]] = {}
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
