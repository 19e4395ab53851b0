"""A linear map after a norm: the plain form's values and gradients, in fp32 and in bf16, and what nobody asks for."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hopscope.kernels.after_norm import after_norm
from hopscope.model.transformer import LayerNorm, Linear


def made(models: int, rows: int, d_in: int, d_out: int, seed: int) -> list[Tensor]:
    """Rows, gain, offset, weight, bias.

    The numbers of a row are apart: of near-equal ones a norm has gradients that no arithmetic in fp32 gets right.
    """
    generator = torch.Generator().manual_seed(seed)
    shapes = ((models, rows, d_in), (models, 1, d_in), (models, 1, d_in), (models, d_in, d_out), (models, 1, d_out))
    x, *others = (torch.randn(shape, generator=generator) for shape in shapes)
    return [0.2 * x + torch.linspace(-2, 2, d_in), *others]


def plainly(x: Tensor, gain: Tensor, offset: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """By the two layers, in double precision."""
    norm, linear = LayerNorm(x.shape[0], x.shape[2]), Linear(x.shape[0], *weight.shape[1:])
    given = {"weight": gain, "bias": offset}, {"weight": weight, "bias": bias}
    normed = torch.func.functional_call(norm, given[0], (x[:, None],))
    return torch.func.functional_call(linear, given[1], (normed,))[:, 0]


def asked(given: list[Tensor], kind: torch.dtype) -> list[Tensor]:
    """The same, each of which has a gradient."""
    return [one.detach().to(kind).requires_grad_() for one in given]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 3), st.integers(1, 9), st.integers(2, 17), st.integers(1, 13), st.integers(0, 99))
def test_values_and_every_gradient(models, rows, d_in, d_out, seed):
    given = made(models, rows, d_in, d_out, seed)
    quick, exact = (asked(given, kind) for kind in (torch.float32, torch.float64))
    gradient = torch.randn(models, rows, d_out, generator=torch.Generator().manual_seed(seed + 1))
    brought, expected = after_norm(*quick), plainly(*exact)
    torch.testing.assert_close(brought.double(), expected, rtol=1e-4, atol=1e-4)
    brought.backward(gradient)
    expected.backward(gradient.double())
    largest = max(float(one.grad.abs().max()) for one in exact)
    for mine, theirs in zip(quick, exact, strict=True):
        torch.testing.assert_close(mine.grad.double(), theirs.grad, rtol=1e-4, atol=2e-5 * largest)


def test_under_autocast_products_are_in_bf16_and_gradients_in_fp32():
    given = made(1, 400, 64, 48, 0)
    quick, exact = (asked(given, kind) for kind in (torch.float32, torch.float64))
    with torch.autocast("cpu", torch.bfloat16):
        brought = after_norm(*quick)
    assert brought.dtype == torch.bfloat16
    expected = plainly(*exact)
    brought.float().square().sum().backward()
    expected.square().sum().backward()
    for mine, theirs in zip(quick, exact, strict=True):
        assert mine.grad.dtype == torch.float32
        assert float((mine.grad - theirs.grad).norm() / theirs.grad.norm()) < 0.01


@pytest.mark.parametrize("asking", range(5))
def test_each_gradient_is_there_alone(asking):
    given = made(2, 7, 6, 5, 0)
    every, alone = ([one.clone() for one in given] for _ in range(2))
    for one in every:
        one.requires_grad_()
    alone[asking].requires_grad_()
    for mine in (every, alone):
        after_norm(*mine).square().sum().backward()
    torch.testing.assert_close(alone[asking].grad, every[asking].grad, rtol=0, atol=0)
    assert [one.grad is None for one in alone] == [number != asking for number in range(5)]
