"""Initial weights: each model from its own seed, the same alone as among others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch

from hopscope.model.layers import Linear
from hopscope.model.transformer import Transformer

InitialWeights = Literal["torch", "gpt2"]


@torch.no_grad()
def initialise(
    transformer: Transformer, seeds: Sequence[int], scheme: InitialWeights = "torch", qk_gain: float = 1.0
) -> None:
    """Draw the weights of model m from `seeds[m]`.

    Args:
        transformer: changed in place; LayerNorms stay at gain 1, offset 0.
        seeds: one a model.
        scheme: `torch` is what `torch.nn.Linear` does, uniform within 1/sqrt(fan-in) for weights and biases. `gpt2`
            is normal with deviation 0.02, shrunk by sqrt(2 layers) where a block writes to the residual stream, and
            no biases (Radford et al. 2019). It decides how long training stays on its plateau.
        qk_gain: factor on the weights that make queries and keys.
    """
    writes_per_block = 2 if transformer.shape.mlp else 1
    shrink = 1 / math.sqrt(writes_per_block * transformer.shape.layers)
    linears = [(name, module) for name, module in transformer.named_modules() if isinstance(module, Linear)]
    for model, seed in enumerate(seeds):
        generator = torch.Generator().manual_seed(seed)
        for name, linear in linears:
            weight, bias = torch.empty(linear.weight.shape[1:]), torch.zeros(linear.bias.shape[1:])
            if scheme == "torch":
                bound = 1 / math.sqrt(weight.shape[0])
                weight.uniform_(-bound, bound, generator=generator)
                bias.uniform_(-bound, bound, generator=generator)
            else:
                writes = name.endswith(("attention.out", "mlp.down"))
                weight.normal_(0, 0.02 * (shrink if writes else 1.0), generator=generator)
            if name.endswith(("attention.query", "attention.key")):
                weight *= qk_gain
            linear.weight[model], linear.bias[model] = weight, bias
