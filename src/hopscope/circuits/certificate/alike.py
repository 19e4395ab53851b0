"""Do rows whose own pattern stands in a circuit bring more than it says? Then it breaks once they look at all chains
alike."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hopscope.circuits.coordinates import Coordinates
from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.hypotheses import Draft
from hopscope.model.edit import Edit, Pattern, Queried
from hopscope.theory.path import Row

NamedKeys = Mapping[Row, Collection[int]]
"""Rows, and the roles of their own chain that each is said to attend to."""


@torch.no_grad()
def errors_alike(evaluator: Evaluator, program: Draft, named: NamedKeys) -> Float[Tensor, " sequence"]:
    """The losses of a program by sequence where some rows look at all chains alike, but for what is said of them."""
    model, found = evaluator.transformer, []
    for share in evaluator.shares:
        edit = ChainsAlike(share.edit(program), named, share.where)
        x = model.run(model.embed(share.batch.inputs[None]), edit=edit, reads=share.shape.reads)
        found.append(share.squared_errors(x))
    return torch.cat(found).double().mean(dim=1)


class ChainsAlike(Edit):
    """An edit after which some rows put on every role of their own chain what they put on it in another one, on average
    over those that they see. What they then put on chains is scaled to be as much as before. A query's own position and
    the keys that are named stay as they are, and so do words of no chain.

    Args:
        inner: the edit before it.
        named: the rows, and the keys that each is said to attend to.
        where: where everything stands in the batch.
    """

    def __init__(self, inner: Edit, named: NamedKeys, where: Coordinates) -> None:
        self._inner, self._named, self._where = inner, named, where
        self._roles = torch.nn.functional.one_hot(where.role).float()
        places = where.place.flatten(1)
        self._in_chain = torch.zeros_like(where.role).scatter_add_(1, places.clamp(min=0), (places >= 0).long()) > 0

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
        own = shared & (self._where.relation[:, -pattern.shape[-2] :] < self._where.roles)
        others = (shared & ~own).float()
        among = others @ self._roles
        mean = (pattern * others) @ self._roles / among.clamp(min=1.0) @ self._roles.mT
        blind = torch.where(own & ((among @ self._roles.mT) > 0), mean, pattern)
        before, after = ((one * shared).sum(dim=-1, keepdim=True) for one in (pattern, blind))
        return torch.where(shared & (after > 0), blind * (before / after.clamp(min=1e-30)), pattern)
