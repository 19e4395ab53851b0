"""Our own GELU is torch's: values and gradients, everywhere, on any number of threads."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from hopscope.kernels.compiled import kernels
from hopscope.kernels.gelu import gelu

needs_compiler = pytest.mark.skipif(kernels() is None, reason="no C compiler here; GELU goes torch's way")


@needs_compiler
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [0.01, 1.0, 10.0, 1e4, 1e18])
def test_it_is_torchs(size, threads):
    """Also in the last numbers of a share, which fill no vector; and what is not a number stays so."""
    x = size * torch.randn(3, 20_001, generator=torch.Generator().manual_seed(0))
    x[0, :3] = torch.tensor([0.0, -0.0, torch.nan])
    gradient = torch.randn(3, 20_001, generator=torch.Generator().manual_seed(1))
    mine, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        made = gelu(mine)
        made.backward(gradient)
    finally:
        torch.set_num_threads(before)
    assert made.grad_fn.name() == "_GeluBackward"
    expected = F.gelu(exact, approximate="tanh")
    expected.backward(gradient.double())
    torch.testing.assert_close(made.double(), expected, rtol=2e-6, atol=1e-6, equal_nan=True)
    slopes = exact.grad.where(exact.grad.isfinite() | x.isnan(), gradient.double() * (x > 0))  # torch's own, far out
    torch.testing.assert_close(mine.grad.double(), slopes, rtol=2e-6, atol=3e-6, equal_nan=True)


OTHERS = [torch.randn(2**15).double(), torch.randn(2**15).bfloat16(), torch.randn(5)]


@pytest.mark.parametrize("x", OTHERS, ids=["fp64", "bf16", "few"])
def test_what_is_not_for_it_goes_torchs_way(x):
    torch.testing.assert_close(gelu(x), F.gelu(x, approximate="tanh"), rtol=0, atol=0)


@needs_compiler
def test_what_lies_apart_in_memory():
    x = torch.randn(400, 99, generator=torch.Generator().manual_seed(0)).T
    torch.testing.assert_close(gelu(x), F.gelu(x, approximate="tanh"), rtol=2e-6, atol=1e-6)
