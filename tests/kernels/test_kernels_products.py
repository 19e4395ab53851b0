"""fp32 products by oneDNN are the plain ones: values, gradients, and where they are taken."""

from __future__ import annotations

import pytest
import torch

from hopscope.kernels import products
from hopscope.model.architecture import Architecture
from hopscope.model.fast import FastTransformer
from hopscope.model.initial_weights import initialise
from hopscope.model.transformer import Transformer

there = pytest.mark.skipif(not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch has no oneDNN")


@pytest.fixture
def by_onednn(monkeypatch):
    """Every product, whatever its size and whatever made this processor; how many there were."""
    monkeypatch.setattr(products, "_SMALL", 0)
    monkeypatch.setattr(products, "quicker_here", lambda: True)
    count, plain = [], products._by_onednn
    monkeypatch.setattr(products, "_by_onednn", lambda *both: plain(*both) and (count.append(both) or True))
    return count


def random(*size: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed))


@there
@pytest.mark.parametrize("models", [1, 3])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (5, 7, 3), (112, 64, 192), (33, 128, 16)])
def test_values_and_gradients(by_onednn, models, sizes):
    rows, d_in, d_out = sizes
    x, weight, bias = random(models, rows, d_in), random(models, d_in, d_out, seed=1), random(models, 1, d_out, seed=2)
    gradient = random(models, rows, d_out, seed=3)
    mine, exact = (
        [one.clone().to(kind).requires_grad_() for one in (x, weight, bias)] for kind in (None, torch.double)
    )
    made, expected = products.affine(*mine), torch.baddbmm(exact[2], exact[0], exact[1])
    made.backward(gradient)
    expected.backward(gradient.double())
    assert len(by_onednn) >= 3  # forward, and both on the way back
    torch.testing.assert_close(made.double(), expected, rtol=0, atol=1e-4)
    for one, other in zip(mine, exact, strict=True):
        torch.testing.assert_close(one.grad.double(), other.grad, rtol=0, atol=1e-4)
    torch.testing.assert_close(products.product(x, weight), torch.bmm(x, weight), rtol=0, atol=1e-4)
    turned = products.product(x.mT, gradient)  # a view, as on the way back
    torch.testing.assert_close(turned, torch.bmm(x.mT, gradient), rtol=0, atol=1e-4)


@there
def test_a_model_is_the_plain_one(by_onednn):
    shape = Architecture(d_input=20, d_output=8, reads=2, layers=2, heads=2, d_model=16, mlp=True)
    quick, slow = FastTransformer(shape, 2), Transformer(shape, 2)
    initialise(slow, [1, 2])
    quick.load_state_dict(slow.state_dict())
    inputs = random(2, 5, 28, 20)
    for transformer in (quick, slow):
        transformer(inputs).square().mean().backward()
    assert by_onednn
    torch.testing.assert_close(quick(inputs), slow(inputs), rtol=1e-5, atol=1e-6)
    for mine, theirs in zip(quick.parameters(), slow.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-6)


def test_where_it_is_taken(monkeypatch):
    asked = products._by_onednn
    large, small = (random(1, size, size) for size in (128, 64))
    monkeypatch.setattr(products, "quicker_here", lambda: True)
    assert asked(large, large)
    assert not asked(small, small)
    assert not asked(large.bfloat16(), large.bfloat16())
    assert not asked(large.double(), large.double())
    assert not asked(large.to("meta"), large.to("meta"))
    with torch.autocast("cpu", torch.bfloat16):
        assert not asked(large, large)
    for intel, avx512, taken in ((True, True, False), (False, False, False), (False, True, True)):
        monkeypatch.undo()
        products.quicker_here.cache_clear()
        monkeypatch.setattr(products, "is_intel", lambda intel=intel: intel)
        monkeypatch.setattr(products, "has_avx512", lambda avx512=avx512: avx512)
        assert asked(large, large) == (taken and hasattr(torch.ops.mkldnn, "_linear_pointwise"))
    products.quicker_here.cache_clear()
