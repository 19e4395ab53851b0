"""Attention in one pass, by the kernels of the device that holds the tensors: C on a CPU, Triton on a GPU."""

from __future__ import annotations

from importlib.util import find_spec

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.kernels import fused_attention
from hopscope.kernels.fused_attention import Made, Weighted

_MOST, _WIDEST = 64, 32
"""Largest number of positions in a sequence and largest width of a head for which the GPU kernels are used."""


def available(device: torch.device | str) -> bool:
    """Return whether this machine has kernels for the device."""
    kind = torch.device(device).type
    return fused_attention.available() if kind == "cpu" else kind == "cuda" and find_spec("triton") is not None


def fits(positions: int, d_head: int, device: torch.device | str) -> bool:
    """Return whether sequences and heads are small enough for the device's kernels."""
    if torch.device(device).type == "cpu":
        return fused_attention.fits(positions, d_head)
    return positions <= _MOST and d_head <= _WIDEST


def attend(made: Made, heads: int, causal: bool) -> Weighted:
    """Softmax attention of all positions, with its gradient; see `fused_attention.attend`."""
    if made.is_cuda:
        from hopscope.kernels import gpu_attention

        return gpu_attention.attend(made, heads, causal)
    return fused_attention.attend(made, heads, causal)


def attend_last(query: Float[Tensor, "sequence query inner"], made: Made, heads: int, causal: bool) -> Weighted:
    """Softmax attention of the last positions alone, with its gradient; see `fused_attention.attend_last`."""
    if made.is_cuda:
        from hopscope.kernels import gpu_attention

        return gpu_attention.attend_last(query, made, heads, causal)
    return fused_attention.attend_last(query, made, heads, causal)
