"""Models that know their own circuit, and small ones with random weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch

from hopscope.model.architecture import Architecture
from hopscope.model.hooks import Hooks
from hopscope.model.initial_weights import initialise
from hopscope.model.transformer import Transformer
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch, sample
from hopscope.theory.witness import Witness, build_witness

PROBLEM = RetrievalProblem(hops=2, chains=3, symbol_dim=3)
"""Two hops, few chains, short symbols."""


def random_model(
    problem: RetrievalProblem, layers: int = 2, heads: int = 3, mlp: bool = True, seed: int = 0, spread: float = 3.0
) -> Transformer:
    """Random weights, large enough that patterns are far from uniform."""
    ends = problem.input_dim, problem.target_dim, problem.chains
    shape = Architecture(*ends, layers, heads, d_model=12, mlp=mlp, causal=problem.causal)
    model = Transformer(shape)
    initialise(model, [seed])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(spread)
    return model.requires_grad_(False)


def some_batch(problem: RetrievalProblem, size: int = 5) -> Batch:
    return sample(problem, size, torch.Generator().manual_seed(0))


class _Changed(Hooks):
    def __init__(self, change):
        self.change = change

    def pattern(self, layer, pattern):
        return self.change(layer, pattern)


@torch.no_grad()
def answers_with(transformer: Transformer, inputs: torch.Tensor, change: Callable[[int, torch.Tensor], torch.Tensor]):
    """Answers where `change` may replace any layer's pattern: it sees all positions as queries in every layer."""
    x = transformer.run(transformer.embed(inputs), hooks=_Changed(change))
    return transformer.answers(x)[:, :, -transformer.shape.reads :]


@cache
def disguised_witness(hops: int, causal: bool = True) -> Witness:
    """A witness with noise on every weight and a decoy head in every layer, which attends as the first head does."""
    witness = build_witness(hops, causal=causal, spare_heads=1)
    model, generator = witness.transformer, torch.Generator().manual_seed(0)
    width = model.shape.d_head
    with torch.no_grad():
        for block in model.blocks:
            for linear in (block.attention.query, block.attention.key, block.attention.value):
                for values in (linear.weight, linear.bias):
                    values[..., -width:] = values[..., :width]
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 2e-5 * parameter.abs().max())
    return witness
