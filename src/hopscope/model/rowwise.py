"""What is done to rows one by one, written so that it is quick both as it stands and compiled."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

_EPSILON = 1e-5
_GELU_LINEAR = 2 * math.sqrt(2 / math.pi)
_GELU_CUBIC = _GELU_LINEAR * 0.044715


def affine(
    x: Float[Tensor, "model row d_in"], weight: Float[Tensor, "model d_in d_out"], bias: Float[Tensor, "model 1 d_out"]
) -> Float[Tensor, "model row d_out"]:
    """x @ weight + bias."""
    if not torch.compiler.is_compiling():
        return torch.baddbmm(bias, x, weight)
    made: Tensor = _AddBias.apply(torch.bmm(x, weight), bias)  # type: ignore[no-untyped-call]
    return made


def normalise(x: Float[Tensor, "*row d"]) -> Float[Tensor, "*row d"]:
    """Every row to mean 0 and deviation 1."""
    if not torch.compiler.is_compiling():
        return F.layer_norm(x, x.shape[-1:], eps=_EPSILON)
    # The compiler makes a recursion along the row out of layer_norm; these sums it fuses, and they are quicker.
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    centred = x - x.mean(dim=-1, keepdim=True)
    return centred * torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + _EPSILON)


def gelu(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """GELU in its tanh form, as in GPT-2. Compiled, it takes one exponential in place of a hyperbolic tangent."""
    if not torch.compiler.is_compiling():
        return F.gelu(x, approximate="tanh")
    return x * torch.sigmoid(x * (_GELU_LINEAR + _GELU_CUBIC * x * x))


class _AddBias(torch.autograd.Function):
    """x + bias, whose gradient for the bias is a product with ones: compiled, a sum over rows misses every cache."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, bias: Tensor) -> Tensor:
        return x + bias.to(x.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        # Two rows of ones, since the compiler turns a product with one back into the sum.
        ones = gradient.new_ones(gradient.shape[0], 2, gradient.shape[1])
        return gradient, torch.bmm(ones, gradient)[:, :1]
