"""Which heads are surely idle, by gradients: for models with so many heads that trying each alone takes long.

The effect of making a head uniform is estimated to first order at four points on the way from its pattern to the
uniform one (integrated gradients): two passes a point and layer, for all its heads together. The estimate decides only
in which order heads are tried; whether one goes is decided by exact scores. It is checked against exact scores all the
same, and not used where they disagree.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.form import UNIFORM
from hopscope.model.edit import Edit, Pattern
from hopscope.theory.path import Row
from hopscope.training.losses import squared_errors

_POINTS = (0.125, 0.375, 0.625, 0.875)
_CHECKED = 24
_AGREEMENT = 0.5


@dataclass(frozen=True)
class Prefilter:
    """Gradient scores, and how they compare with exact ones.

    Attributes:
        order: numbers (layer x heads + head) of all heads, by rising score.
        checked: how many heads were also scored exactly: those with the highest and lowest gradient scores, and some at
            random.
        rank_correlation: Spearman's, over those.
    """

    order: tuple[int, ...]
    checked: int
    rank_correlation: float

    @property
    def agrees(self) -> bool:
        """Whether the order is good enough to be used: a rank correlation of at least 0.5."""
        return self.rank_correlation >= _AGREEMENT


def prefilter(evaluator: Evaluator, generator: torch.Generator) -> Prefilter:
    """Order the heads of a model by gradient scores, and check the order."""
    scores = head_scores(evaluator).flatten()
    order: list[int] = scores.argsort(stable=True).tolist()
    some = [order[number] for number in torch.randperm(len(order), generator=generator).tolist()]
    chosen = list(dict.fromkeys([*order[-_CHECKED // 3 :], *order[: _CHECKED // 3], *some]))[:_CHECKED]
    heads, roles = evaluator.shape.heads, evaluator.where.roles
    programs = [{Row(number // heads, number % heads, query): UNIFORM for query in range(roles)} for number in chosen]
    exact = torch.tensor(evaluator.mse(programs), dtype=torch.float64)
    return Prefilter(tuple(order), len(chosen), spearman(scores[chosen].double(), exact))


def head_scores(evaluator: Evaluator) -> Float[Tensor, "layer head"]:
    """The estimated rise of the loss when a head is made uniform, for every head."""
    transformer, batch = evaluator.transformer, evaluator.batch
    allowed = evaluator.where.allowed.float()
    uniform = allowed / allowed.sum(dim=-1, keepdim=True)
    total = torch.zeros(evaluator.shape.layers, evaluator.shape.heads)
    part = max(1, 4096 // evaluator.problem.sequence_length)
    for start in range(0, evaluator.sequences, part):
        piece = batch[start : start + part]
        clean = transformer.patterns(piece.inputs[None])
        for point in _POINTS:
            leaves = [(pattern + point * (uniform - pattern)).requires_grad_() for pattern in clean]
            # One layer at a time stands at the point; the others keep their own patterns, whose gradients are theirs.
            for layer, leaf in enumerate(leaves):
                with torch.enable_grad():
                    answers = transformer(piece.inputs[None], _At(layer, leaf))
                    loss = squared_errors(answers, piece.targets, evaluator.problem.symbol_dim).mean(dim=-1).sum()
                    (gradient,) = torch.autograd.grad(loss, leaf)
                estimate = (gradient * (uniform - clean[layer])).sum(dim=(0, 1, 3, 4))
                total[layer] += estimate / len(_POINTS)
    return total / evaluator.sequences


class _At(Edit):
    """One layer's pattern put in place; the others keep their own. Queries may be fewer where fewer are read."""

    def __init__(self, layer: int, leaf: Tensor) -> None:
        self._layer, self._leaf = layer, leaf

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        return self._leaf[..., -pattern.shape[-2] :, :] if layer == self._layer else pattern


def spearman(left: Float[Tensor, " n"], right: Float[Tensor, " n"]) -> float:
    """The correlation of ranks; 0 where one side is all alike."""
    ranks = [values.argsort().argsort().double() for values in (left, right)]
    centred = [rank - rank.mean() for rank in ranks]
    scale = (centred[0].square().sum() * centred[1].square().sum()).sqrt()
    return float((centred[0] * centred[1]).sum() / scale) if scale > 0 else 0.0
