"""Witnesses in disguise: a known circuit among heads with equally sharp attention that do nothing."""

from __future__ import annotations

import torch

from hopscope.model.transformer import Attention, Block
from hopscope.theory.witness.built import Witness, build_witness


def disguised_witness(hops: int, noise: float = 2e-5, causal: bool = True, seed: int = 0) -> Witness:
    """A witness with a decoy head in every layer and noise on every weight.

    The decoy attends as the layer's first head does, so its attention maps are as sharp, and writes next to nothing.
    """
    witness = build_witness(hops, causal=causal, spare_heads=1)
    model = witness.transformer
    width = model.shape.d_head
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for block in model.blocks:
            assert isinstance(block, Block)
            _copy_head(block.attention, 0, model.shape.heads - 1, width)
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * noise * parameter.abs().max())
    return witness


def _copy_head(attention: Attention, source: int, target: int, width: int) -> None:
    one, other = slice(source * width, (source + 1) * width), slice(target * width, (target + 1) * width)
    for linear in (attention.query, attention.key, attention.value):
        linear.weight[..., other] = linear.weight[..., one]
        linear.bias[..., other] = linear.bias[..., one]
