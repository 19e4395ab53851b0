"""Muon (Jordan 2024) for M models: matrices get orthogonalised updates, those of each head separately.

AdamW moves every number by about the learning rate; Muon moves a matrix by about the same amount in all directions: its
update is the momentum with all singular values set to one. In `query`, `key`, `value` and `out` every head has its own
matrix; heads that shared one would share its directions. Updates are scaled to the root mean square of AdamW's (Liu et
al. 2025), so that one learning rate and one weight decay serve both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

import hopscope as hs

MOMENTUM = 0.95

_COEFFICIENTS = 3.4445, -4.7750, 2.0315
"""Coefficients of the quintic Newton-Schulz iteration, steepest at zero: five steps take singular values to 0.7 to 1.2.
"""

_STEPS = 5

_LIKE_ADAMW = 0.2
"""Root mean square of AdamW's updates, as a multiple of the learning rate."""

Matrices = Float[Tensor, "model matrix short long"]


@dataclass(frozen=True, eq=False)
class _Weight:
    """A weight and how it divides into matrices: one per head along its rows or columns, or one as a whole."""

    parameter: nn.Parameter
    heads: int
    along: Literal["rows", "columns"]

    @classmethod
    def of(cls, name: str, parameter: nn.Parameter, heads: int) -> _Weight | None:
        """The weight of that name; None if AdamW updates it."""
        if name.endswith(("query.weight", "key.weight", "value.weight")):
            return cls(parameter, heads, "columns")
        if name.endswith("out.weight"):
            return cls(parameter, heads, "rows")
        return cls(parameter, 1, "rows") if name.endswith(("up.weight", "down.weight")) else None

    def matrices(self, numbers: Float[Tensor, "model d_in d_out"]) -> Matrices:
        """A view of numbers in the weight's shape, matrix by matrix, the longer side last."""
        models, d_in, d_out = numbers.shape
        if self.along == "rows":
            made = numbers.view(models, self.heads, -1, d_out)
        else:
            made = numbers.view(models, d_in, self.heads, -1).transpose(1, 2)
        return made.mT if made.shape[2] > made.shape[3] else made


class Muon(hs.TrainingHooks):
    """The optimiser of the block weights that Muon updates.

    Args:
        transformer: the M models.
        recipe: gives the decoupled weight decay.
    """

    def __init__(self, transformer: hs.Transformer, recipe: hs.Recipe) -> None:
        super().__init__(transformer, recipe)
        heads = transformer.shape.heads
        named = transformer.named_parameters()
        self._weights = [taken for name, weight in named if (taken := _Weight.of(name, weight, heads))]

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The weights that Muon updates; AdamW updates all others."""
        return [weight.parameter for weight in self._weights]

    @torch.no_grad()
    def step(self, rate: float, state: Mapping[Tensor, Mapping[str, Tensor]]) -> None:
        """Update all these weights that have a gradient; the momentum is kept in place of AdamW's first moment."""
        alike: dict[torch.Size, list[tuple[_Weight, Matrices]]] = {}
        for weight in self._weights:
            gradient = weight.parameter.grad
            if gradient is not None:
                momentum = state[weight.parameter]["exp_avg"].lerp_(gradient, 1 - MOMENTUM)
                ahead = weight.matrices(gradient.lerp(momentum, MOMENTUM))
                alike.setdefault(ahead.shape[2:], []).append((weight, ahead))
        for shape, several in alike.items():  # all layers at once, since they are small
            moved = orthogonal(torch.cat([ahead for _, ahead in several], dim=1))
            length = rate * _LIKE_ADAMW * math.sqrt(max(shape))
            first = 0
            for weight, ahead in several:
                part = moved[:, first : (first := first + ahead.shape[1])]
                weight.parameter.mul_(1 - rate * self.recipe.weight_decay)
                weight.matrices(weight.parameter).add_(part, alpha=-length)


def orthogonal(matrices: Matrices) -> Matrices:
    """Each matrix with its singular values moved near one; zero stays zero."""
    first, third, fifth = _COEFFICIENTS
    made: Tensor = matrices / torch.linalg.matrix_norm(matrices, keepdim=True).clamp(min=1e-7)
    for _ in range(_STEPS):
        square = made @ made.mT
        made = first * made + (third * square + fifth * square @ square) @ made
    return made
