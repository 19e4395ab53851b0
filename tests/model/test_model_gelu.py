"""Our own GELU is torch's: everywhere, on any number of threads, and with gradients by torch alone."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from hopscope.model.gelu import _library, gelu

needs_compiler = pytest.mark.skipif(_library() is None, reason="no C compiler here; GELU goes torch's way")


@needs_compiler
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [1.0, 10.0, 1e4, 1e18])
def test_it_is_torchs(size, threads):
    x = size * torch.randn(3, 20_001, generator=torch.Generator().manual_seed(0))
    x[0, :4] = torch.tensor([0.0, -0.0, torch.inf, torch.nan])
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        made = gelu(x)
    finally:
        torch.set_num_threads(before)
    expected = F.gelu(x.double(), approximate="tanh")
    torch.testing.assert_close(made.double(), expected, rtol=2e-6, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize(
    "x", [torch.randn(2**15).double(), torch.randn(2**15).bfloat16(), torch.randn(5), torch.randn(99, 999).T]
)
def test_what_is_not_for_it_goes_torchs_way(x):
    torch.testing.assert_close(gelu(x), F.gelu(x, approximate="tanh"), rtol=0, atol=0)


def test_gradients():
    x = torch.randn(2**15, generator=torch.Generator().manual_seed(0)).requires_grad_()
    gelu(x).sum().backward()
    mine, x.grad = x.grad.clone(), None
    F.gelu(x, approximate="tanh").sum().backward()
    torch.testing.assert_close(mine, x.grad, rtol=0, atol=0)
