"""Linear maps, computed in the fastest way for the device.

torch multiplies fp32 matrices on a CPU with MKL, which does not use AVX-512 on AMD processors: MKL reaches 108 GFLOP/s
on one core of such a processor. oneDNN, which torch includes and uses for bf16, reaches 257. On other processors,
oneDNN is not faster.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.kernels.precision import has_avx512, is_intel

_SMALL = 2**20
"""Number of multiplications below which MKL is as fast as oneDNN."""

_PIECES = 16
"""The largest number of pieces into which rows are split."""

_LEAST = 1024
"""The smallest number of rows in a piece."""

Flat = Float[Tensor, "model row d_in"]
Weight = Float[Tensor, "model d_in d_out"]
Bias = Float[Tensor, "model 1 d_out"]
Product = Float[Tensor, "model row d_out"]


def affine(x: Flat, weight: Weight, bias: Bias | None) -> Product:
    """Compute x @ weight + bias, with gradients for all arguments."""
    if not _by_onednn(x, weight):
        return _by_torch(x, weight, bias)
    made: Tensor = _Affine.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return made


def product(left: Flat, right: Weight, bias: Bias | None = None) -> Product:
    """Compute left @ right + bias, without gradients."""
    return (_onednn if _by_onednn(left, right) else _by_torch)(left, right, bias)


def _by_torch(left: Flat, right: Weight, bias: Bias | None) -> Product:
    if len(left) == 1 and left.dtype == torch.bfloat16:  # for few rows, bmm takes up to five times as long
        return torch.nn.functional.linear(left[0], right[0].mT, None if bias is None else bias[0, 0])[None]
    return torch.bmm(left, right) if bias is None else torch.baddbmm(bias, left, right)


def _onednn(left: Flat, right: Weight, bias: Bias | None) -> Product:
    multiply = torch.ops.mkldnn._linear_pointwise
    biases = [None] * len(left) if bias is None else [row[0] for row in bias]
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
    """Return whether oneDNN is faster for this product."""
    if left.dtype != torch.float32 or right.dtype != torch.float32 or left.device.type != "cpu":
        return False
    large = left.shape[1] * left.shape[2] * right.shape[2] >= _SMALL
    return large and not torch.is_autocast_enabled("cpu") and quicker_here()


@cache
def quicker_here() -> bool:
    """Return whether oneDNN is faster on this processor, and torch has the operation that calls oneDNN."""
    return not is_intel() and has_avx512() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def affine_on_gpu(x: Flat, weight: Weight, bias: Bias) -> Product:
    """Compute `affine` on a GPU, in the precision of autocast.

    A weight's gradient is a sum over all rows of a batch. As a single product, it has so few tiles that most of the GPU
    would be idle, so it is computed as a sum of products over pieces of the rows.
    """
    if torch.is_autocast_enabled(x.device.type):
        dtype = torch.get_autocast_dtype(x.device.type)
        x, weight = x.to(dtype), weight.to(dtype)
    made: Tensor = _ProductOnGpu.apply(x, weight)  # type: ignore[no-untyped-call]
    return made + bias.to(made.dtype)


class _ProductOnGpu(torch.autograd.Function):
    """x @ weight, where the weight's gradient is computed over pieces of the rows."""

    @staticmethod
    def forward(ctx: Any, x: Flat, weight: Weight) -> Product:
        ctx.save_for_backward(x, weight)
        return torch.bmm(x, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Product) -> tuple[Flat, Weight]:
        x, weight = ctx.saved_tensors
        return torch.bmm(gradient, weight.mT), _by_pieces(x, gradient)


def _by_pieces(x: Flat, gradient: Product) -> Weight:
    """Compute x.mT @ gradient over pieces of the rows."""
    (models, rows), pieces = x.shape[:2], _PIECES
    while pieces > 1 and (rows % pieces or rows < pieces * _LEAST):
        pieces //= 2
    left, right = (factor.reshape(models * pieces, rows // pieces, -1) for factor in (x, gradient))
    return torch.bmm(left.mT, right).view(models, pieces, x.shape[2], -1).sum(dim=1)
