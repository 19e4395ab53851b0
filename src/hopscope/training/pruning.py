"""Heads that are left out: at random from one update (head dropout), or for good (pruning).

Heads that share work, or can replace one another, hide how a model works. Pruned once the task is learned, by the loss
alone, they cost next to nothing, and a circuit is left that can be certified. More are pruned only once the model has
learned again what it lost with the last: a lost hop costs nothing more, so the heads that it needs would go, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hopscope.problem.counter import derive_seed

Left = Bool[Tensor, "model layer head"]
"""The heads that are left."""

HeadScales = Float[Tensor, "model layer head"]
"""The factor on each head's output in one update: 0 where the head is dropped."""

Losses = Float[Tensor, " model"]
"""The loss of every model: mean squared error, or nats."""

COST = 0.3
"""The largest total rise of a mean squared error in one round of pruning."""


def head_scales(seeds: Sequence[int], step: int, layers: int, heads: int, share: float) -> HeadScales:
    """Head dropout: 0 for heads dropped from one update, 1 / (1 - share) for the rest (Srivastava 2014).

    Which heads are dropped is a function of seed and step, as the data are, so that a killed run resumes alike.

        >>> head_scales([7], 0, layers=1, heads=4, share=0.5)
        tensor([[[2., 0., 2., 0.]]])
    """
    drawn = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(derive_seed(seed, "head dropout", step))
        drawn.append(torch.rand(layers, heads, generator=generator))
    return (torch.stack(drawn) >= share) / (1 - share)


def prune(left: Left, losses_with: Callable[[Left], Losses], cost: float = COST) -> Left:
    """The heads that are left after one round of pruning, for each model on its own.

    The heads whose removal alone costs least go first, as long as removing all together raises the loss, as
    `losses_with` gives it, by no more than `cost`; a loss that is not a number counts as more.
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
