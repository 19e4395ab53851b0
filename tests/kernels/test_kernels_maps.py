"""Linear maps, norms and GELU by our own ways are the plain ones: values, gradients, and where they are taken."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hopscope.kernels import products
from hopscope.kernels.after_norm import after_norm
from hopscope.kernels.compiled import kernels
from hopscope.kernels.gelu import gelu
from hopscope.kernels.modules import quicken
from hopscope.model.transformer import LayerNorm, Linear
from hopscope.training.execution import using_threads

has_onednn = pytest.mark.skipif(not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch has no oneDNN")
needs_compiler = pytest.mark.skipif(kernels() is None, reason="no C compiler here; GELU goes torch's way")


@pytest.fixture
def by_onednn(monkeypatch):
    """Every product, whatever its size and whatever made this processor; how many there were."""
    monkeypatch.setattr(products, "_SMALL", 0)
    monkeypatch.setattr(products, "quicker_here", lambda: True)
    count, plain = [], products._by_onednn
    monkeypatch.setattr(products, "_by_onednn", lambda *both: plain(*both) and (count.append(both) or True))
    return count


def random(*size: int, seed: int = 0) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed))


@has_onednn
@pytest.mark.parametrize("models", [1, 3])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (5, 7, 3), (33, 128, 16)])
def test_products_by_onednn(by_onednn, models, sizes):
    rows, d_in, d_out = sizes
    x, weight, bias = random(models, rows, d_in), random(models, d_in, d_out, seed=1), random(models, 1, d_out, seed=2)
    gradient = random(models, rows, d_out, seed=3)
    mine, exact = (
        [tensor.clone().to(kind).requires_grad_() for tensor in (x, weight, bias)] for kind in (None, torch.double)
    )
    made, expected = products.affine(*mine), torch.baddbmm(exact[2], exact[0], exact[1])
    made.backward(gradient)
    expected.backward(gradient.double())
    assert len(by_onednn) >= 3  # forward, and both on the way back
    torch.testing.assert_close(made.double(), expected, rtol=0, atol=1e-4)
    for one, other in zip(mine, exact, strict=True):
        torch.testing.assert_close(one.grad.double(), other.grad, rtol=0, atol=1e-4)
    rounded = products.affine(*(tensor.bfloat16() for tensor in (x, weight, bias)))
    torch.testing.assert_close(rounded.double(), expected, rtol=0.02, atol=0.2)
    turned = products.product(x.mT, gradient)  # a view, as on the way back
    torch.testing.assert_close(turned, torch.bmm(x.mT, gradient), rtol=0, atol=1e-4)


def after_norm_inputs(models: int, rows: int, d_in: int, d_out: int, seed: int) -> list[Tensor]:
    """Rows, gain, offset, weight, bias; numbers of a row are apart, or a norm's gradients have no digits in fp32."""
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


def with_gradients(given: list[Tensor], kind: torch.dtype) -> list[Tensor]:
    return [tensor.detach().to(kind).requires_grad_() for tensor in given]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 3), st.integers(1, 9), st.integers(2, 17), st.integers(1, 13), st.integers(0, 99))
def test_a_map_after_a_norm(models, rows, d_in, d_out, seed):
    given = after_norm_inputs(models, rows, d_in, d_out, seed)
    quick, exact = (with_gradients(given, kind) for kind in (torch.float32, torch.float64))
    gradient = random(models, rows, d_out, seed=seed + 1)
    found, expected = after_norm(*quick), plainly(*exact)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)
    found.backward(gradient)
    expected.backward(gradient.double())
    largest = max(float(tensor.grad.abs().max()) for tensor in exact)
    for mine, theirs in zip(quick, exact, strict=True):
        torch.testing.assert_close(mine.grad.double(), theirs.grad, rtol=1e-4, atol=2e-5 * largest)


def test_a_map_after_a_norm_under_autocast_is_in_bf16_and_its_gradients_in_fp32():
    given = after_norm_inputs(1, 400, 64, 48, 0)
    quick, exact = (with_gradients(given, kind) for kind in (torch.float32, torch.float64))
    with torch.autocast("cpu", torch.bfloat16):
        found = after_norm(*quick)
    assert found.dtype == torch.bfloat16
    found.float().square().sum().backward()
    plainly(*exact).square().sum().backward()
    for mine, theirs in zip(quick, exact, strict=True):
        assert mine.grad.dtype == torch.float32
        assert float((mine.grad - theirs.grad).norm() / theirs.grad.norm()) < 0.01


@needs_compiler
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [0.01, 1.0, 10.0, 1e18])
def test_gelu_is_torchs(size, threads):
    """Also in the last numbers of a share, which fill no vector; and what is not a number stays so."""
    x = size * random(3, 20_001)
    x[0, :3] = torch.tensor([0.0, -0.0, torch.nan])
    gradient = random(3, 20_001, seed=1)
    mine, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    with using_threads(threads):
        made = gelu(mine)
        made.backward(gradient)
    assert made.grad_fn.name() == "_GeluBackward"
    expected = F.gelu(exact, approximate="tanh")
    expected.backward(gradient.double())
    torch.testing.assert_close(made.double(), expected, rtol=2e-6, atol=1e-6, equal_nan=True)
    slopes = exact.grad.where(exact.grad.isfinite() | x.isnan(), gradient.double() * (x > 0))  # torch's own, far out
    torch.testing.assert_close(mine.grad.double(), slopes, rtol=2e-6, atol=3e-6, equal_nan=True)


@pytest.mark.parametrize("x", [random(2**15).double(), random(2**15).bfloat16(), random(5), random(400, 99).T])
def test_gelu_of_other_numbers(x):
    torch.testing.assert_close(gelu(x), F.gelu(x, approximate="tanh"), rtol=2e-6, atol=1e-6)


@has_onednn
@pytest.mark.slow
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_language_models_maps(by_onednn, family):
    """Their answers and gradients by our products: the same, with their own weights, and so is a copy."""
    from small_decoders import decoder

    plain, model = decoder(family), decoder(family)
    quicken(model)
    assert model.state_dict().keys() == plain.state_dict().keys()
    pairs = zip(model.modules(), plain.modules(), strict=True)
    assert sum(type(module) is not type(other) for module, other in pairs) > 8
    tokens = torch.randint(0, 40, (64, 30), generator=torch.Generator().manual_seed(1))
    for asked in (plain, model):
        asked(input_ids=tokens).logits.square().mean().backward()
    for parameter, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, theirs.grad, rtol=1e-3, atol=1e-7)
    copied = deepcopy(model)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    torch.testing.assert_close(copied(input_ids=tokens).logits, plain(input_ids=tokens).logits, rtol=1e-4, atol=1e-5)
