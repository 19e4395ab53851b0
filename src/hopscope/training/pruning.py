"""Permanent head pruning: heads that a model can do without are removed while the rest trains on.

Heads that share work, or can replace one another, hide what a model does: no small part of it explains all. Removed
once the task is learned, a few at a time, they cost next to nothing, and what is left is a circuit that can be
certified. The loss alone decides which heads go; no pattern is looked at. More go only once the model has learned again
what it lost with the last ones: a hop that is lost costs nothing more, so the heads that it needs would go, too. Models
of vectors and of text follow the same rule.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Left = Bool[Tensor, "model layer head"]
"""The heads that are left."""

Losses = Float[Tensor, " model"]
"""The loss of every model: mean squared error, or nats."""


def prune(left: Left, losses_with: Callable[[Left], Losses], cost: float) -> Left:
    """The heads that are left after one round of pruning, for each model on its own.

    The head whose removal alone costs least goes first. Heads go as long as removing all of them together raises the
    loss by no more than `cost`; a loss that is not a number counts as more.

    Args:
        left: the heads before the round.
        losses_with: gives the loss of every model with these heads alone.
        cost: largest total rise of the loss, in its unit.
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
    """The loss when one head is removed, for each head; infinite for heads already gone, so that they come last."""
    losses = torch.full(left.shape, torch.inf, dtype=torch.float64)
    for layer, head in left.any(dim=0).nonzero().tolist():
        fewer = left.clone()
        fewer[:, layer, head] = False
        losses[:, layer, head] = losses_with(fewer).nan_to_num(nan=torch.inf)
    return losses.masked_fill(~left, torch.inf)
