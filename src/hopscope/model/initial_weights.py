"""Initial weights. The weights of each model depend only on its own seed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from hopscope.model.architecture import AS_TORCH, InitialWeights
from hopscope.model.transformer import Linear, Transformer


@torch.no_grad()
def initialise(transformer: Transformer, seeds: Sequence[int], drawn: InitialWeights = AS_TORCH) -> None:
    """Draw the weights of model m from `seeds[m]`, in place. LayerNorms keep a gain of 1 and an offset of 0."""
    writes_per_block = 2 if transformer.shape.mlp else 1
    shrink = 1 / math.sqrt(writes_per_block * transformer.shape.layers)
    linears = [(name, module) for name, module in transformer.named_modules() if isinstance(module, Linear)]
    for model, seed in enumerate(seeds):
        generator = torch.Generator().manual_seed(seed)
        for name, linear in linears:
            weight, bias = torch.empty(linear.weight.shape[1:]), torch.zeros(linear.bias.shape[1:])
            writes = name.endswith(("attention.out", "mlp.down"))
            if drawn.init == "torch":
                bound = 1 / math.sqrt(weight.shape[0])
                weight.uniform_(-bound, bound, generator=generator)
                bias.uniform_(-bound, bound, generator=generator)
            else:
                weight.normal_(0, 0.02 * (shrink if writes else 1.0), generator=generator)
            if name.endswith(("attention.query", "attention.key")):
                weight *= drawn.qk_gain
            gain = drawn.embedding_gain if name == "embed" else drawn.output_gain if writes else 1.0
            linear.weight[model], linear.bias[model] = gain * weight, gain * bias


@torch.no_grad()
def with_untrained_heads(
    model: Transformer, heads: Sequence[tuple[int, int]], seed: int, drawn: InitialWeights
) -> Transformer:
    """Return a copy of one model in which `heads`, as (layer, head) from 0, have initial weights: a negative control.

    `drawn` must be the way in which the model's own initial weights were drawn.
    """
    mixed, fresh = (type(model)(model.shape, 1) for _ in range(2))
    initialise(fresh, [seed], drawn)
    mixed.load_state_dict(model.state_dict())
    mixed.requires_grad_(False)
    width = model.shape.d_head
    own, new = mixed.state_dict(), fresh.state_dict()  # which share the models' memory
    for layer, head in heads:
        columns, attention = slice(head * width, (head + 1) * width), f"blocks.{layer}.attention"
        for name in (f"{attention}.{part}.{kind}" for part in ("query", "key", "value") for kind in ("weight", "bias")):
            own[name][..., columns] = new[name][..., columns]
        own[f"{attention}.out.weight"][:, columns] = new[f"{attention}.out.weight"][:, columns]
    return mixed
