"""Heads that a model learns to do without: taken away for good while the rest trains on.

Heads that share work, or stand in for one another, hide what a model does: no small part of it is all there is. Taken
away once the task is learned, a few at a time, they cost next to nothing, and what is left is a circuit that can be
certified. Which heads go is decided by the loss alone; no pattern is looked at. More go only when the model has
learned again what it lost with the last ones: a hop that is gone costs nothing more, and what it needs would follow.
One rule for models of vectors and of text.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Left = Bool[Tensor, "model layer head"]
"""The heads that are still there."""

Losses = Float[Tensor, " model"]
"""Of every model: mean squared errors, or nats."""


def prune(left: Left, losses_with: Callable[[Left], Losses], cost: float) -> Left:
    """Which heads are left when as many go as a rise of the loss allows, of every model on its own.

    The head that is missed least goes first. Heads go as long as all that have gone together cost no more than `cost`;
    a loss that is no number counts as more.

    Args:
        left: the heads that are there.
        losses_with: the loss of every model with these heads alone.
        cost: by how much the loss may rise, in its unit.
    """
    most = losses_with(left) + cost
    order = _alone(left, losses_with).flatten(1).argsort(dim=1, stable=True)
    found, going = left.clone(), torch.ones(len(left), dtype=torch.bool)
    for count in range(1, int(left.flatten(1).sum(dim=1).max()) + 1):
        fewer = left.flatten(1).scatter(1, order[:, :count], False).view_as(left)
        going &= losses_with(fewer) <= most
        if not going.any():
            break
        found[going] = fewer[going]
    return found


def _alone(left: Left, losses_with: Callable[[Left], Losses]) -> Float[Tensor, "model layer head"]:
    """The loss without each head alone; infinite for those that are gone, so that they come last."""
    losses = torch.full(left.shape, torch.inf, dtype=torch.float64)
    for layer, head in left.any(dim=0).nonzero().tolist():
        fewer = left.clone()
        fewer[:, layer, head] = False
        losses[:, layer, head] = losses_with(fewer).nan_to_num(nan=torch.inf)
    return losses.masked_fill(~left, torch.inf)
