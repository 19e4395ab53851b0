"""Muon (Jordan 2024) for M models: matrices get orthogonalised updates, with a separate matrix for each head.

AdamW moves every number by about the learning rate. Muon moves a matrix by about the same amount in all directions,
because its update is the momentum with all singular values set to one. In `query`, `key`, `value` and `out`, every head
has its own matrix; in one common matrix, the heads would share its directions. Updates are scaled to the root mean
square of AdamW's updates (Liu et al. 2025), so that one learning rate and one weight decay are right for both.
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
"""Coefficients of the quintic Newton-Schulz iteration, chosen for a steep slope at zero. Five steps move all singular
values to between 0.7 and 1.2."""

_STEPS = 5

_LIKE_ADAMW = 0.2
"""Root mean square of AdamW's updates, as a multiple of the learning rate."""

Matrices = Float[Tensor, "model matrix short long"]


@dataclass(frozen=True, eq=False)
class _Weight:
    """A weight and its division into matrices: one matrix per head along its rows or columns, or a single matrix."""

    parameter: nn.Parameter
    heads: int
    along: Literal["rows", "columns"]

    @classmethod
    def of(cls, name: str, parameter: nn.Parameter, heads: int) -> _Weight | None:
        """Return the weight called `name`; None if AdamW updates it."""
        if name.endswith(("query.weight", "key.weight", "value.weight")):
            return cls(parameter, heads, "columns")
        if name.endswith("out.weight"):
            return cls(parameter, heads, "rows")
        return cls(parameter, 1, "rows") if name.endswith(("up.weight", "down.weight")) else None

    def matrices(self, numbers: Float[Tensor, "model d_in d_out"]) -> Matrices:
        """Return a view of `numbers`, which have the weight's shape, as matrices whose longer side is last."""
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
        recipe: the recipe, of which only the decoupled weight decay is used.
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
        """Update every Muon weight that has a gradient. The momentum is stored in place of AdamW's first moment."""
        alike: dict[torch.Size, list[tuple[_Weight, Matrices]]] = {}
        for weight in self._weights:
            gradient = weight.parameter.grad
            if gradient is not None:
                momentum = state[weight.parameter]["exp_avg"].lerp_(gradient, 1 - MOMENTUM)
                ahead = weight.matrices(gradient.lerp(momentum, MOMENTUM))
                alike.setdefault(ahead.shape[2:], []).append((weight, ahead))
        for shape, several in alike.items():  # matrices of all layers at once, since they are small
            moved = orthogonal(torch.cat([ahead for _, ahead in several], dim=1))
            length = rate * _LIKE_ADAMW * math.sqrt(max(shape))
            first = 0
            for weight, ahead in several:
                part = moved[:, first : (first := first + ahead.shape[1])]
                weight.parameter.mul_(1 - rate * self.recipe.weight_decay)
                weight.matrices(weight.parameter).add_(part, alpha=-length)


def orthogonal(matrices: Matrices) -> Matrices:
    """Return each matrix with its singular values moved near one. A zero matrix stays zero."""
    first, third, fifth = _COEFFICIENTS
    made: Tensor = matrices / torch.linalg.matrix_norm(matrices, keepdim=True).clamp(min=1e-7)
    for _ in range(_STEPS):
        square = made @ made.mT
        made = first * made + (third * square + fifth * square @ square) @ made
    return made
