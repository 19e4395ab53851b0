"""Gradient estimates for rows and heads: how much the loss rises if a row or head is made uniform, to first order.

The rise is estimated at four points between a pattern and the uniform pattern (integrated gradients), for a block of
layers together, with two passes per point and block. Models of more than twelve layers still have twelve blocks, and
use fewer sequences in proportion. In models with many heads, where trying each head alone takes long, the estimate
decides in which order heads are tried; exact scores decide whether a head is removed. The order is checked against
exact scores of some heads, and it is not used if they disagree.
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
"""The maximum number of blocks of layers; with at most this many layers, each layer is its own block."""

SAVED = 1 << 30
"""The maximum number of bytes that a backward pass may keep."""

_MANY_HEADS, _MANY_A_LAYER = 32, 8
"""Gradients are used only in models with at least this many heads in total, and in each layer."""

_TOO_MANY = 256
"""With more heads than this, the order is fixed even if gradients disagree: repeated trials would take too long."""

CHECKED = 24
"""The number of heads that are also scored exactly: the highest and lowest estimates, and some between them."""

_AGREEMENT = 0.5
"""The estimated order is used if its rank correlation (Spearman's) with exact scores is at least this."""


def head_order(evaluator: Evaluator, sequences: int) -> tuple[int, ...]:
    """Return the numbers (layer x heads + head) of all heads by rising estimate; empty if gradients are not used.

    Models of more than `BLOCKS` layers use fewer than `sequences` sequences. If the estimate disagrees with exact
    scores, the result is empty or, in a model of more than `_TOO_MANY` heads, the order by exact scores.
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
    """Return the heads by rising estimate, and the rank correlation of the estimates with exact scores."""
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
    """Return, for every row, the estimated rise of the loss if this row is made uniform."""
    shape, positions = evaluator.shape, evaluator.where.role.shape[1]
    saved = BYTES_A_POSITION * shape.d_model * shape.layers * positions
    part = max(1, min(4096 // positions, SAVED // saved))
    total = torch.zeros(shape.layers, shape.heads, evaluator.where.roles)
    for start in range(0, evaluator.sequences, part):
        total += _summed_scores(evaluator.on(evaluator.batch[start : start + part])).cpu()
    return total / evaluator.sequences


def _summed_scores(evaluator: Evaluator) -> Float[Tensor, "layer head role"]:
    """Return the estimates summed over the sequences, which must be few enough for one backward pass."""
    where, model, shape = evaluator.where, evaluator.transformer, evaluator.shape
    total = torch.zeros(shape.layers, shape.heads, where.roles, device=where.role.device)
    size = -(-shape.layers // BLOCKS)
    entering = model.embed(evaluator.batch.inputs[None])
    for first in range(0, shape.layers, size):
        block = range(first, min(first + size, shape.layers))
        for point in _POINTS:
            # Only one block is moved to the point; all other layers keep their own patterns, with their gradients.
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
    """Moves the patterns of a block of layers part of the way to the uniform pattern; `point` is the share of the way.

    `shares` holds this share for every query in each layer, so that the loss has a gradient for each of them.
    """

    def __init__(self, block: range, point: float, evaluator: Evaluator) -> None:
        where = evaluator.where
        sequences, positions = where.role.shape
        size = 1, sequences, evaluator.shape.heads, positions
        self._evaluator = evaluator
        self._first = block.start
        self.shares = [torch.full(size, point, device=where.role.device).requires_grad_() for _ in block]

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """Return the moved pattern; it has fewer queries than keys if only the last positions are read."""
        if not 0 <= layer - self._first < len(self.shares):
            return pattern
        queries = pattern.shape[-2]
        share = self.shares[layer - self._first][..., -queries:, None]
        return pattern + share * (self._evaluator.off(pattern) - pattern)
