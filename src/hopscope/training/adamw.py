"""AdamW (Loshchilov and Hutter 2019) by the operation behind torch's class: constructing the class loads torch's
compiler, which would delay every training by a second, and it counts the updates of every weight apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from hopscope.training.recipe import Recipe

MOMENTS = ("exp_avg", "exp_avg_sq")
"""The moments kept for every weight."""

State = Mapping[Tensor, Mapping[str, Tensor]]
"""For every weight its moments, in its shape, and `step`, the number of updates it has had; weights that are always
updated together may share one."""


def step(weights: Sequence[Tensor], state: State, rate: float | Tensor, recipe: Recipe) -> None:
    """Update all weights that have a gradient, and their moments, in place.

    Args:
        weights: the weights that AdamW updates.
        state: the state of these weights; it may hold others too.
        rate: the learning rate; a tensor where the update is recorded as a CUDA graph, which reads it when replayed.
        recipe: gives `beta1`, `beta2` and `weight_decay`.
    """
    moved = {weight: weight.grad for weight in weights if weight.grad is not None}
    if not moved:
        return
    kept = [state[weight] for weight in moved]
    updates = [one["step"] for one in kept]
    for one in {id(one): one for one in updates}.values():
        one.add_(1)
    first, second = ([one[moment] for one in kept] for moment in MOMENTS)
    torch._fused_adamw_(
        [*moved],
        [*moved.values()],
        first,
        second,
        [],
        updates,
        lr=rate,
        beta1=recipe.beta1,
        beta2=recipe.beta2,
        weight_decay=recipe.weight_decay,
        eps=1e-8,
        amsgrad=False,
        maximize=False,
    )
