"""Products of fp32 matrices on a CPU, by the library that is quickest there.

torch multiplies them with MKL, which treats an AMD processor with AVX-512 as one without: on one of its cores MKL
reaches 108 GFLOP/s. oneDNN, which torch includes and uses for bf16, reaches 257. Elsewhere nothing is gained.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.kernels.precision import has_avx512, is_intel

_SMALL = 2**20
"""Number of multiplications below which MKL is as quick."""

Flat = Float[Tensor, "model row d_in"]
Weight = Float[Tensor, "model d_in d_out"]
Bias = Float[Tensor, "model 1 d_out"]
Product = Float[Tensor, "model row d_out"]


def affine(x: Flat, weight: Weight, bias: Bias | None) -> Product:
    """x @ weight + bias, with gradients for all of them."""
    if not _by_onednn(x, weight):
        return _by_torch(x, weight, bias)
    made: Tensor = _Affine.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return made


def product(left: Flat, right: Weight, bias: Bias | None = None) -> Product:
    """left @ right + bias, without gradients."""
    return (_onednn if _by_onednn(left, right) else _by_torch)(left, right, bias)


def _by_torch(left: Flat, right: Weight, bias: Bias | None) -> Product:
    return torch.bmm(left, right) if bias is None else torch.baddbmm(bias, left, right)


def _onednn(left: Flat, right: Weight, bias: Bias | None) -> Product:
    multiply = torch.ops.mkldnn._linear_pointwise
    biases = [None] * len(left) if bias is None else [one[0] for one in bias]
    models = zip(left, right, biases, strict=True)
    made = [multiply(one, other.mT, third, "none", [], "") for one, other, third in models]
    return made[0][None] if len(made) == 1 else torch.stack(made)


class _Affine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Flat, weight: Weight, bias: Bias | None) -> Product:
        ctx.save_for_backward(x, weight)
        return _onednn(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Product) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        to_x, to_weight, to_bias = ctx.needs_input_grad
        return (
            product(gradient, weight.mT) if to_x else None,
            product(x.mT, gradient) if to_weight else None,
            gradient.sum(dim=1, keepdim=True) if to_bias else None,
        )


def _by_onednn(left: Flat, right: Weight) -> bool:
    """Whether oneDNN is quicker at this product."""
    if left.dtype != torch.float32 or right.dtype != torch.float32 or left.device.type != "cpu":
        return False
    large = left.shape[1] * left.shape[2] * right.shape[2] >= _SMALL
    return large and not torch.is_autocast_enabled("cpu") and quicker_here()


@cache
def quicker_here() -> bool:
    """Whether oneDNN is quicker on this processor, and torch has the operation through which its compiler calls it."""
    return not is_intel() and has_avx512() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
