"""AdamW (Loshchilov and Hutter 2019) by torch's function, not its class: to make one loads torch's compiler, and every
training would begin a second later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor
from torch.optim.adamw import adamw

from hopscope.training.recipe import Recipe

MOMENTS = ("exp_avg", "exp_avg_sq")
"""What is kept of every weight."""

State = Mapping[Tensor, Mapping[str, Tensor]]
"""Of every weight its moments, in its shape, and `step`, how many updates it has had."""


def step(weights: Sequence[Tensor], state: State, rate: float | Tensor, recipe: Recipe) -> None:
    """One update of all weights that have a gradient, and of their moments; in place.

    Args:
        weights: those that are AdamW's.
        state: of these, and maybe of others.
        rate: of learning; a tensor where the update is recorded as a CUDA graph, which is to read it.
        recipe: has the decays.
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
