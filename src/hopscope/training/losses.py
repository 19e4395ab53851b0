"""The loss and its parts, one per hop."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor


def squared_errors(
    answers: Float[Tensor, "*batch query d_target"], targets: Float[Tensor, "*#batch query d_target"], symbol_dim: int
) -> Float[Tensor, "*batch hop"]:
    """Mean squared error of every sequence by hop asked for, over queries and components.

    An answer of zero costs 1, the average of the N candidates 1 - 1/N (0.75 at N = 4), which is the plateau.
    """
    errors = (answers.float() - targets).square()
    return errors.reshape(*errors.shape[:-1], -1, symbol_dim).mean(dim=(-3, -1))


def partial_losses(
    answers: Float[Tensor, "model batch query d_target"],
    targets: Float[Tensor, "model batch query d_target"],
    symbol_dim: int,
) -> Float[Tensor, "model hop"]:
    """Mean squared error by model and hop asked for. A model's loss is the mean over its hops."""
    return squared_errors(answers, targets, symbol_dim).mean(dim=1)
