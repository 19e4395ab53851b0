"""AdamW (Loshchilov and Hutter 2019) through torch's function, not its class: constructing the class loads torch's
compiler, which would delay every training by a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor
from torch.optim.adamw import adamw

from hopscope.training.recipe import Recipe

MOMENTS = ("exp_avg", "exp_avg_sq")
"""The moments kept for every weight."""

State = Mapping[Tensor, Mapping[str, Tensor]]
"""For every weight its moments, in its shape, and `step`, the number of updates it has had."""


def step(weights: Sequence[Tensor], state: State, rate: float | Tensor, recipe: Recipe) -> None:
    """Update all weights that have a gradient, and their moments, in place.

    Args:
        weights: the weights that AdamW updates.
        state: the state of these weights; it may hold others too.
        rate: the learning rate; a tensor where the update is recorded as a CUDA graph, which reads it when replayed.
        recipe: gives `beta1`, `beta2` and `weight_decay`.
    """
    moved = [(weight, weight.grad, state[weight]) for weight in weights if weight.grad is not None]
    first, second = MOMENTS
    adamw(
        [weight for weight, _, _ in moved],
        [gradient for _, gradient, _ in moved],
        [kept[first] for _, _, kept in moved],
        [kept[second] for _, _, kept in moved],
        [],
        [kept["step"] for _, _, kept in moved],
        fused=True,
        capturable=isinstance(rate, Tensor),
        amsgrad=False,
        beta1=recipe.beta1,
        beta2=recipe.beta2,
        lr=rate,
        weight_decay=recipe.weight_decay,
        eps=1e-8,
        maximize=False,
    )
