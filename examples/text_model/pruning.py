"""Removing heads from a model of our own, by the rule of `hopscope.training.pruning`.

A head is gone when its columns of the output map are zero: it writes nothing. That is all there is to remember, so a
training that was interrupted needs no list of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.training.pruning import Left, Losses
from hopscope.training.pruning import prune as by_loss


def heads_left(model: Any) -> Left:
    """Which heads of the one model write something."""
    return torch.stack([maps.ne(0).any(dim=0).any(dim=1) for maps in _outputs(model)])[None]


def keep_only(model: Any, left: Left) -> None:
    """Make all other heads write nothing; needed again after every update, since an optimizer moves zeros too."""
    with torch.no_grad():
        for maps, there in zip(_outputs(model), left[0], strict=True):
            maps[:, ~there] = 0


def prune(model: Any, loss: Callable[[], float], cost: float) -> Left:
    """Remove the heads that the model can do without; see `hopscope.training.pruning`.

    Args:
        model: the model from which they are removed.
        loss: gives the loss of the model as it is when this is called.
        cost: by how much the loss may rise for all heads that are removed together.

    Returns:
        The heads that are left.
    """

    def losses_with(left: Left) -> Losses:
        whole = [maps.detach().clone() for maps in _outputs(model)]
        keep_only(model, left)
        found = loss()
        with torch.no_grad():
            for maps, before in zip(_outputs(model), whole, strict=True):
                maps.copy_(before)
        return torch.tensor([found], dtype=torch.float64)

    left = by_loss(heads_left(model), losses_with, cost)
    keep_only(model, left)
    return left


def _outputs(model: Any) -> list[Float[Tensor, "d_model head d_head"]]:
    """The maps from every head's values to the residual stream, layer by layer: views of the output maps."""
    heads = model.config.num_attention_heads
    return [layer.self_attn.o_proj.weight.unflatten(1, (heads, -1)) for layer in model.model.layers]
