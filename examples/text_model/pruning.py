"""Prune the heads that a text model can do without, as `hs.Recipe` does for models of vectors.

A head is pruned when its columns of the output map are zero, so that it writes nothing. Nothing else is stored, so an
interrupted training needs no list of pruned heads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Left = Bool[Tensor, "layer head"]
"""The heads that are left."""


def heads_left(model: Any) -> Left:
    """Return which heads of the model write something."""
    return torch.stack([maps.ne(0).any(dim=0).any(dim=1) for maps in _outputs(model)])


def keep_only(model: Any, left: Left) -> None:
    """Set the outputs of all other heads to zero. Call this after every update, since optimizers change zeros too."""
    with torch.no_grad():
        for maps, remaining in zip(_outputs(model), left, strict=True):
            maps[:, ~remaining] = 0


def prune(model: Any, loss: Callable[[], float], cost: float) -> Left:
    """Prune heads, the cheapest first, as long as all pruned heads together raise the loss by at most `cost`.

    Args:
        model: the model to prune.
        loss: a function that returns the current loss of the model.
        cost: how much the loss may rise for all pruned heads together.

    Returns:
        The heads that are left.
    """

    def loss_with(left: Left) -> float:
        whole = [maps.detach().clone() for maps in _outputs(model)]
        keep_only(model, left)
        found = loss()
        with torch.no_grad():
            for maps, before in zip(_outputs(model), whole, strict=True):
                maps.copy_(before)
        return found

    def without(heads: list[list[int]]) -> Left:
        fewer = left.clone()
        for layer, head in heads:
            fewer[layer, head] = False
        return fewer

    left = heads_left(model)
    most = loss_with(left) + cost
    alone = [(loss_with(without([where])), where) for where in left.nonzero().tolist()]
    order = [where for _, where in sorted(alone, key=lambda one: (math.isnan(one[0]), one[0]))]
    gone = 0
    while gone < len(order) and loss_with(without(order[: gone + 1])) <= most:
        gone += 1
    left = without(order[:gone])
    keep_only(model, left)
    return left


def _outputs(model: Any) -> list[Float[Tensor, "d_model head d_head"]]:
    """Return, for each layer, a view of the output map with one map per head from its values to the residual stream."""
    heads = model.config.num_attention_heads
    return [layer.self_attn.o_proj.weight.unflatten(1, (heads, -1)) for layer in model.model.layers]
