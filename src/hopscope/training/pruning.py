"""Head dropout leaves random heads out of one update; pruning removes heads for good.

Heads that share work, or can replace one another, hide how a model works. Pruning them after the task is learned, by
the loss alone, hardly raises the loss and leaves a circuit that can be certified. A further round waits until the model
has learned every hop again: while a hop is lost, removing the heads that it needs would not raise the loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hopscope.problem.counter import derive_seed

Left = Bool[Tensor, "model layer head"]
"""Whether each head is left, that is, not pruned."""

HeadScales = Float[Tensor, "model layer head"]
"""The factor on each head's output in one update: 0 where the head is dropped."""

Losses = Float[Tensor, " model"]
"""The loss of every model: mean squared error, or nats."""

COST = 0.3
"""The largest rise of a model's mean squared error in one round of pruning."""


def head_scales(seeds: Sequence[int], step: int, layers: int, heads: int, share: float) -> HeadScales:
    """Draw the scales of head dropout: 0 for dropped heads, 1 / (1 - share) for all other heads (Srivastava 2014).

    The dropped heads depend only on seed and step, so that a run that was killed and resumed drops the same heads.

        >>> head_scales([7], 0, layers=1, heads=4, share=0.5)
        tensor([[[2., 0., 2., 0.]]])
    """
    drawn = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(derive_seed(seed, "head dropout", step))
        drawn.append(torch.rand(layers, heads, generator=generator))
    return (torch.stack(drawn) >= share) / (1 - share)


def prune(left: Left, losses_with: Callable[[Left], Losses], cost: float = COST) -> Left:
    """Return the heads that are left after one round of pruning, for each model separately.

    Heads are removed in turn, first the head whose removal alone raises the loss least. Removal stops when all removed
    heads together would raise the loss by more than `cost`, or make it NaN. `losses_with` computes the loss with only
    the given heads.
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
    """Return the loss without each head in turn; infinite for heads that are already pruned, so that they come last."""
    losses = torch.full(left.shape, torch.inf, dtype=torch.float64)
    for layer, head in left.any(dim=0).nonzero().tolist():
        fewer = left.clone()
        fewer[:, layer, head] = False
        losses[:, layer, head] = losses_with(fewer).nan_to_num(nan=torch.inf)
    return losses.masked_fill(~left, torch.inf)
