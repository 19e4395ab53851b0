"""What gradients say of rows and heads: the rise of the loss when one is made uniform, to first order.

Estimated at four points on the way from a pattern to the uniform one (integrated gradients): two passes a point and
layer, for all its heads together. In models with so many heads that trying each alone takes long, the estimate says in
which order heads are tried; whether one goes is decided by exact scores. It is checked against exact scores all the
same, and not used where they disagree.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from scipy.stats import spearmanr
from torch import Tensor

from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.form import UNIFORM, Program
from hopscope.model.edit import Edit, Pattern
from hopscope.theory.path import Row

_POINTS = (0.125, 0.375, 0.625, 0.875)

_MANY_HEADS, _MANY_A_LAYER = 32, 8
"""From how many heads, and in a layer, gradients are asked."""

_CHECKED = 24
"""Heads that are also scored exactly: those with the highest and lowest estimates, and some between."""

_AGREEMENT = 0.5
"""Rank correlation with exact scores (Spearman's) from which the order is used."""


def head_order(evaluator: Evaluator) -> tuple[int, ...]:
    """Numbers (layer x heads + head) of all heads by rising estimate; none where not asked or not good enough."""
    shape = evaluator.shape
    if shape.heads < _MANY_A_LAYER or shape.layers * shape.heads < _MANY_HEADS:
        return ()
    order, agreement = estimated_order(evaluator)
    return order if agreement >= _AGREEMENT else ()


def estimated_order(evaluator: Evaluator) -> tuple[tuple[int, ...], float]:
    """The order of the heads, and its rank correlation with exact scores."""
    scores = row_scores(evaluator).sum(dim=-1).flatten()
    order: list[int] = scores.argsort(stable=True).tolist()
    third = _CHECKED // 3
    between = order[third:-third][:: max(1, (len(order) - 2 * third) // third)]
    chosen = list(dict.fromkeys([*order[:third], *order[-third:], *between]))[:_CHECKED]
    heads, roles = evaluator.shape.heads, evaluator.where.roles
    programs: list[Program] = [
        {Row(number // heads, number % heads, query): UNIFORM for query in range(roles)} for number in chosen
    ]
    return tuple(order), rank_correlation(scores[chosen], torch.tensor(evaluator.mse(programs)))


def rank_correlation(left: Float[Tensor, " n"], right: Float[Tensor, " n"]) -> float:
    """Spearman's; 0 where one side is all alike."""
    if bool((left == left[0]).all()) or bool((right == right[0]).all()):
        return 0.0
    return float(spearmanr(left.double().numpy(), right.double().numpy()).statistic)


def row_scores(evaluator: Evaluator) -> Float[Tensor, "layer head role"]:
    """The estimated rise of the loss when a row is made uniform, for every row."""
    where, seam = evaluator.where, evaluator.transformer
    allowed = where.allowed.float()
    uniform = allowed / allowed.sum(dim=-1, keepdim=True)
    total = torch.zeros(evaluator.shape.layers, evaluator.shape.heads, where.roles)
    part = max(1, 4096 // where.role.shape[1])
    for start in range(0, evaluator.sequences, part):
        piece, role = evaluator.on(evaluator.batch[start : start + part]), where.role[start : start + part]
        entering = seam.embed(piece.batch.inputs[None])
        clean = [pattern.detach() for pattern in seam.patterns(piece.batch.inputs[None])]
        for point in _POINTS:
            leaves = [(pattern + point * (uniform - pattern)).requires_grad_() for pattern in clean]
            # One layer at a time stands at the point; the others keep their own patterns, whose gradients are theirs.
            for layer, leaf in enumerate(leaves):
                with torch.enable_grad():
                    x = seam.run(entering, edit=_At(layer, leaf), reads=evaluator.shape.reads)
                    (gradient,) = torch.autograd.grad(piece.squared_errors(x).mean(dim=-1).sum(), leaf)
                change = (gradient * (uniform - clean[layer])).detach().sum(dim=-1)[0]  # batch head query
                index = role[:, None].expand_as(change)
                by_role = change.new_zeros(*change.shape[:-1], where.roles).scatter_add_(-1, index, change)
                total[layer] += by_role.sum(dim=0) / len(_POINTS)
    return total / evaluator.sequences


class _At(Edit):
    """One layer's pattern put in place; the others keep their own. Queries may be fewer where fewer are read."""

    def __init__(self, layer: int, leaf: Tensor) -> None:
        self._layer, self._leaf = layer, leaf

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        return self._leaf[..., -pattern.shape[-2] :, :] if layer == self._layer else pattern
