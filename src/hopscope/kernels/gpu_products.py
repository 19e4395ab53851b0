"""Linear maps on a GPU, where a weight's gradient is a sum over all rows of a batch: a product of so few tiles that
most of the GPU would wait for it. Here it is the sum of products of some rows each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hopscope.kernels.products import Bias, Flat, Product, Weight

_PIECES = 16
"""The most pieces in which rows are taken."""

_LEAST = 1024
"""The fewest rows of a piece."""


def affine(x: Flat, weight: Weight, bias: Bias) -> Product:
    """x @ weight + bias, with gradients for all of them, in the precision of autocast."""
    if torch.is_autocast_enabled(x.device.type):
        dtype = torch.get_autocast_dtype(x.device.type)
        x, weight = x.to(dtype), weight.to(dtype)
    made: Tensor = _Product.apply(x, weight)  # type: ignore[no-untyped-call]
    return made + bias.to(made.dtype)


class _Product(torch.autograd.Function):
    """x @ weight, with the weight's gradient by pieces."""

    @staticmethod
    def forward(ctx: Any, x: Flat, weight: Weight) -> Product:
        ctx.save_for_backward(x, weight)
        return torch.bmm(x, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Product) -> tuple[Flat, Weight]:
        x, weight = ctx.saved_tensors
        return torch.bmm(gradient, weight.mT), _by_pieces(x, gradient)


def _by_pieces(x: Flat, gradient: Product) -> Weight:
    """x.mT @ gradient."""
    (models, rows), pieces = x.shape[:2], _PIECES
    while pieces > 1 and (rows % pieces or rows < pieces * _LEAST):
        pieces //= 2
    left, right = (one.reshape(models * pieces, rows // pieces, -1) for one in (x, gradient))
    made: Weight = torch.bmm(left.mT, right).view(models, pieces, x.shape[2], -1).sum(dim=1)
    return made
