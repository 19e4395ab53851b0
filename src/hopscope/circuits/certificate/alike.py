"""Do rows whose own pattern stands in a circuit, or that are off in it, bring more than it says? Then it breaks once
the former look at all chains alike, and the latter gather in rewired sequences."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.circuits.coordinates import Coordinates
from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.hypotheses import Draft
from hopscope.circuits.rewired import GatheredThere
from hopscope.model.edit import Edit, Pattern, Queried, Readable
from hopscope.theory.path import Row

NamedKeys = Mapping[Row, Collection[int]]
"""Rows, and the roles of their own chain that each is said to attend to."""

_NOTHING = 1e-6
"""The share of what a row puts on chains up to which others than its own have nothing, so that it cannot be scaled."""


@torch.no_grad()
def errors_alike(evaluator: Evaluator, program: Draft, named: NamedKeys) -> Float[Tensor, " sequence"]:
    """The losses of a program by sequence where some rows look at all chains alike, but for what is said of them."""
    return _errors(evaluator, lambda share: ChainsAlike(share.edit(program), named, share.where))


@torch.no_grad()
def errors_rewired(
    evaluator: Evaluator, program: Draft, named: NamedKeys, off: Sequence[Row], pair: int
) -> Float[Tensor, " sequence"]:
    """As `errors_alike`, where other rows, that are off, gather what is there when the values of a pair are rewired.

    Of a module that does not show what its attention writes, they look at other chains alone, which asks for more.
    """

    def edit(share: Evaluator) -> Edit:
        inner = ChainsAlike(share.edit(program), named, share.where)
        if not isinstance(model := share.transformer, Readable):
            return OtherChains(inner, off, share.where)
        rewired = share.rewired(pair)
        there = rewired.sequences
        edits = inner, ChainsAlike(there.edit(program), named, there.where)
        entering, where = model.embed(there.batch.inputs[None]), (share.where, there.where)
        return GatheredThere(model, entering, edits, off, where, rewired.at)

    return _errors(evaluator, edit)


def rewirings(evaluator: Evaluator) -> range:
    """The pairs for which `errors_rewired` is to be asked: all, or one where it is the same whatever the pair."""
    return range(1, 1 + (evaluator.problem.hops if isinstance(evaluator.transformer, Readable) else 1))


def _errors(evaluator: Evaluator, edit: Callable[[Evaluator], Edit]) -> Float[Tensor, " sequence"]:
    """The losses by sequence under an edit that is made for each share of the sequences."""
    model, found = evaluator.transformer, []
    for share in evaluator.shares:
        x = model.run(model.embed(share.batch.inputs[None]), edit=edit(share), reads=share.shape.reads)
        found.append(share.squared_errors(x))
    return torch.cat(found).double().mean(dim=1)


class ChainsAlike(Edit):
    """An edit after which some rows put on every role of their own chain what they put on it in another one, on average
    over those that they see. What they then put on chains is scaled to be as much as before; where that is nothing, a
    role's weight is spread over all chains. Where one chain alone is asked about, as in text, it counts as the own one
    of every row: a word of no chain, or another chain's, could find the answer and be read in its place. A query's own
    position and the keys that are named stay as they are, and so does the weight on words of no chain.

    Args:
        inner: the edit before it.
        named: the rows, and the keys that each is said to attend to.
        where: where everything stands in the batch.
    """

    def __init__(self, inner: Edit, named: NamedKeys, where: Coordinates) -> None:
        self._inner, self._named, self._where = inner, named, where
        self._roles = torch.nn.functional.one_hot(where.role).float()
        self._mine, self._in_chain = own_chain(where), _stands(where, where.place)

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """The pattern of the edit before, with chains alike in the rows that are asked for."""
        pattern = self._inner.pattern(layer, pattern).clone()
        for head in sorted({row.head for row in self._named if row.layer == layer}):
            pattern[:, :, head] = self._alike(pattern[:, :, head], self._shared(layer, head)[:, -pattern.shape[-2] :])
        return pattern

    def written(self, layer: int, written: Queried) -> Queried:
        """What the edit before makes of it."""
        return self._inner.written(layer, written)

    def _shared(self, layer: int, head: int) -> Bool[Tensor, "batch query key"]:
        """The keys in chains, but for those that stay, of the queries that are asked for."""
        where, shared = self._where, torch.zeros_like(self._where.relation, dtype=torch.bool)
        itself = torch.eye(shared.shape[-1], dtype=torch.bool, device=shared.device)
        for row, keys in self._named.items():
            if row[:2] == (layer, head):
                of_row = (where.role == row.query)[..., None] & where.allowed & self._in_chain[:, None] & ~itself
                shared |= of_row & ~torch.isin(where.relation, where.relation.new_tensor([*keys]))
        return shared

    def _alike(
        self, pattern: Float[Tensor, "model batch query key"], shared: Bool[Tensor, "batch query key"]
    ) -> Float[Tensor, "model batch query key"]:
        """The pattern with as much on the own chain as on others; where no other is seen, as it is."""
        own = shared & self._mine[:, -pattern.shape[-2] :]
        others = shared & ~own
        mean, told = self._mean(pattern, others)
        blind = torch.where(own & told, mean, pattern)
        even = torch.where(shared & told, self._mean(pattern, shared)[0], pattern)
        before, after = ((one * shared).sum(dim=-1, keepdim=True) for one in (pattern, blind))
        left = after > _NOTHING * before
        return torch.where(shared, torch.where(left, blind * (before / torch.where(left, after, 1.0)), even), pattern)

    def _mean(
        self, pattern: Float[Tensor, "model batch query key"], among: Bool[Tensor, "batch query key"]
    ) -> tuple[Float[Tensor, "model batch query key"], Bool[Tensor, "batch query key"]]:
        """For every key, the mean weight on keys of its role among some, and whether there are any."""
        count = among.float() @ self._roles
        mean: Tensor = (pattern * among) @ self._roles / count.clamp(min=1.0) @ self._roles.mT
        return mean, (count @ self._roles.mT) > 0


class OtherChains(Edit):
    """An edit after which some rows look at nothing of their own chain but their own position; the rest is scaled up.

    Args:
        inner: the edit before it.
        rows: the rows.
        where: where everything stands in the batch.
    """

    def __init__(self, inner: Edit, rows: Iterable[Row], where: Coordinates) -> None:
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

    def written(self, layer: int, written: Queried) -> Queried:
        """What the edit before makes of it."""
        return self._inner.written(layer, written)


def own_chain(where: Coordinates) -> Bool[Tensor, "batch query key"]:
    """Whether a key is of the query's chain, or of the chain asked about where that is one alone, as in text."""
    ends = where.place[..., -1] >= 0
    asked = torch.where((ends & ends.sum(dim=1, keepdim=True).eq(1))[..., None], where.place, -1)
    return (where.relation < where.roles) | _stands(where, asked)[:, None]


def _stands(where: Coordinates, place: Int[Tensor, "batch chain role"]) -> Bool[Tensor, "batch pos"]:
    """The positions at which something of these chains stands; -1 is nowhere."""
    places = place.flatten(1)
    return torch.zeros_like(where.role).scatter_add_(1, places.clamp(min=0), (places >= 0).long()) > 0
