"""The rival in JAX: one model as people usually write it, `vmap` over M models, and one jitted AdamW step.

It needs `pip install jax` (with CUDA, `pip install "jax[cuda12]"`); nothing else in this folder needs JAX.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from torch import Tensor

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch
from hopscope.training.recipe import Recipe

Weights = dict[str, jax.Array]
"""The weights of M models along a leading axis; inside `vmap`, the weights of one model."""

jax.config.update("jax_default_matmul_precision", "highest")  # fp32 as in torch; on a GPU, the default is TF32


def _norm(x: jax.Array, weights: Weights, name: str) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _linear(x: jax.Array, weights: Weights, name: str) -> jax.Array:
    return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _answers(weights: Weights, x: jax.Array, layers: int, heads: int, reads: int) -> jax.Array:
    """Return the answers at the queries of one GPT-2 that reads vectors."""
    batch, pos, _ = x.shape
    x = _linear(x, weights, "embed")
    hidden = jnp.triu(jnp.ones((pos, pos), bool), 1)
    for layer in range(layers):
        at = f"blocks.{layer}"
        rows = _norm(x, weights, f"{at}.attention_norm")
        query, key, value = (
            _linear(rows, weights, f"{at}.attention.{part}").reshape(batch, pos, heads, -1).swapaxes(1, 2)
            for part in ("query", "key", "value")
        )
        scores = jnp.where(hidden, -jnp.inf, query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5)
        mixed = (jax.nn.softmax(scores) @ value).swapaxes(1, 2).reshape(batch, pos, -1)
        x = x + _linear(mixed, weights, f"{at}.attention.out")
        rows = _norm(x, weights, f"{at}.mlp_norm")
        x = x + _linear(jax.nn.gelu(_linear(rows, weights, f"{at}.mlp.up")), weights, f"{at}.mlp.down")
    return _linear(_norm(x, weights, "norm"), weights, "read")[:, -reads:]


def jax_trainer(
    problem: RetrievalProblem, recipe: Recipe, weights: dict[str, Tensor]
) -> Callable[[Batch], list[float]]:
    """Return a function that makes one update of all models and returns their losses."""

    def loss_of(weights: Weights, inputs: jax.Array, targets: jax.Array) -> jax.Array:
        answers = _answers(weights, inputs, recipe.layers, recipe.heads, problem.chains)
        return ((answers - targets) ** 2).mean()

    def moved(
        weight: jax.Array, mean: jax.Array, square: jax.Array, gradient: jax.Array, step: jax.Array
    ) -> tuple[jax.Array, ...]:
        """Return one weight and its moments after an AdamW step."""
        mean = recipe.beta1 * mean + (1 - recipe.beta1) * gradient
        square = recipe.beta2 * square + (1 - recipe.beta2) * gradient**2
        change = mean / (1 - recipe.beta1**step) / (jnp.sqrt(square / (1 - recipe.beta2**step)) + 1e-8)
        weight = weight * (1 - recipe.learning_rate * recipe.weight_decay) - recipe.learning_rate * change
        return weight, mean, square

    @jax.jit
    def update(state: tuple[Weights, Weights, Weights, jax.Array], inputs: jax.Array, targets: jax.Array) -> tuple:
        weights, means, squares, step = state
        losses, gradients = jax.vmap(jax.value_and_grad(loss_of))(weights, inputs, targets)
        new = {name: moved(weights[name], means[name], squares[name], gradients[name], step) for name in weights}
        return (*({name: one[part] for name, one in new.items()} for part in range(3)), step + 1), losses

    given = {name: jnp.from_dlpack(tensor.detach().clone()) for name, tensor in weights.items()}
    zero = {name: jnp.zeros_like(one) for name, one in given.items()}
    state = (given, zero, dict(zero), jnp.ones(()))

    def step(batch: Batch) -> list[float]:
        nonlocal state
        inputs, targets = (jnp.from_dlpack(tensor.contiguous()) for tensor in (batch.inputs, batch.targets))
        state, losses = update(state, inputs, targets)
        return losses.tolist()

    return step
