"""Gradient estimates for rows and heads: the rise of the loss when one is made uniform, to first order.

The rise is estimated at four points on the way from a pattern to the uniform one (integrated gradients), for a block of
layers together: two passes for each point and block. A deeper model than one of twelve layers has no more blocks, and
fewer sequences in proportion. In models with so many heads that trying each alone takes long, the estimate decides in
which order heads are tried; whether one is removed is decided by exact scores. The order is checked against exact
scores all the same, and not used where they disagree.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.evaluate.ablations import UNIFORM, Interventions
from hopscope.circuits.evaluate.evaluator import BYTES_A_POSITION, Evaluator
from hopscope.circuits.search.config import FEW
from hopscope.model.hooks import Hooks, Pattern
from hopscope.problem.paths import HeadRow
from hopscope.statistics import rank_correlation

_POINTS = (0.125, 0.375, 0.625, 0.875)

BLOCKS = 12
"""Layers are put into at most so many blocks. Up to so many layers, each is a block of its own."""

SAVED = 1 << 30
"""How many bytes a backward pass may keep."""

_MANY_HEADS, _MANY_A_LAYER = 32, 8
"""Gradients are used from so many heads on, and so many in a layer."""

_TOO_MANY = 256
"""With more heads than this, trying each alone again and again is no way out where gradients disagree."""

CHECKED = 24
"""How many heads are also scored exactly: those with the highest and lowest estimates, and some between."""

_AGREEMENT = 0.5
"""The order is used if its rank correlation with exact scores (Spearman's) is at least this."""


def head_order(evaluator: Evaluator, sequences: int) -> tuple[int, ...]:
    """Numbers (layer x heads + head) of all heads by rising estimate; empty where gradients are not used or disagree.

    The estimate uses `sequences` in models of up to `BLOCKS` layers.
    If they disagree in a model of more than `_TOO_MANY` heads, the order is by exact scores on a few sequences.
    """
    shape = evaluator.shape
    if shape.heads < _MANY_A_LAYER or shape.layers * shape.heads < _MANY_HEADS:
        return ()
    order, agreement = estimated_order(evaluator.part(max(FEW, sequences * BLOCKS // max(shape.layers, BLOCKS))))
    if agreement >= _AGREEMENT:
        return order
    if len(order) <= _TOO_MANY:
        return ()
    costs = _exact(evaluator.part(FEW), sorted(order))
    return tuple(sorted(range(len(costs)), key=costs.__getitem__))


def estimated_order(evaluator: Evaluator) -> tuple[tuple[int, ...], float]:
    """The order of the heads by rising estimate, and the rank correlation of estimates with exact scores."""
    scores = row_scores(evaluator).sum(dim=-1).flatten()
    order: list[int] = scores.argsort(stable=True).tolist()
    third = CHECKED // 3
    between = order[third:-third][:: max(1, (len(order) - 2 * third) // third)]
    chosen = list(dict.fromkeys([*order[:third], *order[-third:], *between]))[:CHECKED]
    return tuple(order), rank_correlation(scores[chosen].tolist(), _exact(evaluator, chosen))


def _exact(evaluator: Evaluator, numbers: Sequence[int]) -> list[float]:
    heads, roles = evaluator.shape.heads, evaluator.where.roles
    evaluator.depart_from({})
    candidates: list[Interventions] = [
        {HeadRow(number // heads, number % heads, query): UNIFORM for query in range(roles)} for number in numbers
    ]
    return evaluator.mse(candidates)


def row_scores(evaluator: Evaluator) -> Float[Tensor, "layer head role"]:
    """The estimated rise of the loss when a row is made uniform, for every row."""
    shape, positions = evaluator.shape, evaluator.where.role.shape[1]
    saved = BYTES_A_POSITION * shape.d_model * shape.layers * positions
    part = max(1, min(4096 // positions, SAVED // saved))
    total = torch.zeros(shape.layers, shape.heads, evaluator.where.roles)
    for start in range(0, evaluator.sequences, part):
        total += _summed_scores(evaluator.on(evaluator.batch[start : start + part])).cpu()
    return total / evaluator.sequences


def _summed_scores(evaluator: Evaluator) -> Float[Tensor, "layer head role"]:
    """Estimates summed over sequences few enough for one backward pass."""
    where, model, shape = evaluator.where, evaluator.transformer, evaluator.shape
    total = torch.zeros(shape.layers, shape.heads, where.roles, device=where.role.device)
    size = -(-shape.layers // BLOCKS)
    entering = model.embed(evaluator.batch.inputs[None])
    for first in range(0, shape.layers, size):
        block = range(first, min(first + size, shape.layers))
        for point in _POINTS:
            # One block at a time is moved to the point; the others keep their own patterns, with their own gradients.
            edit = _TowardsUniform(block, point, evaluator)
            with torch.enable_grad():
                x = model.run(entering, start=first, hooks=edit, reads=shape.reads)
                changes = torch.autograd.grad(evaluator.squared_errors(x).mean(dim=-1).sum(), edit.shares)
            for layer, change in zip(block, changes, strict=True):
                index = where.role[:, None].expand_as(change[0])
                by_role = change.new_zeros(*change.shape[1:-1], where.roles).scatter_add_(-1, index, change[0])
                total[layer] += by_role.sum(dim=0) / len(_POINTS)
        entering = model.run(entering, start=first, stop=block.stop)
    return total


class _TowardsUniform(Hooks):
    """Moves the patterns of some layers part of the way, `point`, to the uniform one, each row by a share of its own.

    `shares` says, by layer, how far on the way every row is.
    """

    def __init__(self, block: range, point: float, evaluator: Evaluator) -> None:
        where = evaluator.where
        sequences, positions = where.role.shape
        size = 1, sequences, evaluator.shape.heads, positions
        self._evaluator = evaluator
        self._first = block.start
        self.shares = [torch.full(size, point, device=where.role.device).requires_grad_() for _ in block]

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """The moved pattern. There may be fewer queries where fewer are read."""
        if not 0 <= layer - self._first < len(self.shares):
            return pattern
        queries = pattern.shape[-2]
        share = self.shares[layer - self._first][..., -queries:, None]
        return pattern + share * (self._evaluator.off(pattern) - pattern)
