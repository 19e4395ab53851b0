"""What a GPU computes attention and linear maps with, against the plain forms: on a GPU if there is one, else Triton's
interpreter, where Triton is installed, and torch's own products on the CPU."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest
import torch

import hopscope.kernels as kernels_room
from hopscope.kernels import attention, products
from hopscope.paper.recipes import A
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.execution import Execution, kernels_used
from hopscope.training.recipe import Recipe, Setup

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="wants Triton")

ROUNDING = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 1e-2}
DTYPES = (torch.float32, torch.bfloat16 if DEVICE == "cuda" else torch.float16)  # the interpreter's bf16 is wrong


@pytest.fixture(scope="module")
def kernels():
    if DEVICE == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
    from hopscope.kernels import gpu_attention

    return gpu_attention


def numbers(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(shape[-1])).to(DEVICE, dtype).requires_grad_()


def plain(query: torch.Tensor, rest: torch.Tensor, heads: int, causal: bool) -> torch.Tensor:
    """Attention in fp64, written down once more."""

    def cut(x: torch.Tensor) -> torch.Tensor:
        return x.double().unflatten(2, (heads, -1)).transpose(1, 2)

    key, value = map(cut, rest.chunk(2, dim=2))
    scores = cut(query) @ key.mT
    if causal:
        first = key.shape[2] - query.shape[1]
        unseen = torch.arange(key.shape[2])[None] > first + torch.arange(query.shape[1])[:, None]
        scores = scores.masked_fill(unseen.to(scores.device), -torch.inf)
    return (scores.softmax(dim=-1) @ value).transpose(1, 2).flatten(2)


def off(ours: torch.Tensor, right: torch.Tensor) -> float:
    return float((ours.detach().double() - right.detach().double()).norm() / right.detach().double().norm())


@needs_triton
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("positions", "asked", "heads", "d_head", "causal"),
    [(44, 44, 2, 16, True), (28, 28, 1, 32, False), (13, 13, 3, 8, True), (64, 4, 2, 16, True), (20, 1, 2, 5, False)],
)
def test_attention_of_a_gpu_is_attention(kernels, dtype, positions, asked, heads, d_head, causal):
    """All positions, or the last alone, with gradients of everything."""
    inner = heads * d_head
    assert attention.fits(positions, d_head, "cuda")
    query, rest = numbers(3, asked, inner, dtype=dtype), numbers(3, positions, 2 * inner, dtype=dtype)
    right = plain(query, rest, heads, causal)
    if asked == positions:
        ours = kernels.attend(torch.cat([query, rest], dim=2), heads, causal)
    else:
        ours = kernels.attend_last(query, rest, heads, causal)
    gradient = numbers(*ours.shape, dtype=dtype).detach()
    by_ours = torch.autograd.grad(ours, (query, rest), gradient)
    by_right = torch.autograd.grad(right, (query, rest), gradient.double())
    assert ours.dtype == dtype
    for one, other in zip((ours, *by_ours), (right, *by_right), strict=True):
        assert off(one, other) < ROUNDING[dtype]


@pytest.mark.parametrize(("models", "rows"), [(2, 4096), (1, 2049), (3, 20), (1, 32768)])
@pytest.mark.parametrize("bf16", [False, True])
def test_a_weights_gradient_by_pieces(models, rows, bf16):
    """As the product at once; in bf16 each piece is rounded, so that no more is lost than by one rounding."""
    x, weight, bias = (numbers(models, *shape, dtype=torch.float32) for shape in ((rows, 6), (6, 10), (1, 10)))
    right = x.double() @ weight.double() + bias.double()
    with torch.autocast(DEVICE, torch.bfloat16, enabled=bf16):
        ours = products.affine_on_gpu(x, weight, bias)
    gradient = numbers(*ours.shape, dtype=torch.float32).detach()
    by_ours = torch.autograd.grad(ours, (x, weight, bias), gradient.to(ours.dtype))
    by_right = torch.autograd.grad(right, (x, weight, bias), gradient.double())
    assert ours.dtype == (torch.bfloat16 if bf16 else torch.float32)
    for one, other in zip((ours, *by_ours), (right, *by_right), strict=True):
        assert one.shape == other.shape
        assert off(one, other) < (1e-2 if bf16 else 1e-5)


def test_which_gpus_have_kernels(monkeypatch):
    """Who has Triton; it then trains with them, compiled or not, and without it goes on all the same."""
    monkeypatch.setattr(Execution, "check", lambda self: None)
    monkeypatch.setattr(kernels_room, "best_precision", lambda device: "bf16")
    setup = Setup("one", RetrievalProblem(hops=1), Recipe(2, 2, 16, 10, 2))
    for there in (True, False):
        monkeypatch.setattr(attention, "find_spec", lambda name, there=there: there or None)
        assert attention.available("cuda") == there
        assert not attention.available("mps")
        for compiled in (True, False):
            chosen = Execution(device="cuda", compiled=compiled).resolve(setup)
            assert (chosen.compiled, chosen.kernels) == (compiled, True)  # with kernels come graphs
            assert kernels_used(setup.problem, setup.recipe, chosen) == (there, False)
        wide = Execution(device="cuda").resolve(A)
        assert kernels_used(A.problem, A.recipe, wide) == (False, False)  # its head is too wide
    assert not attention.fits(65, 8, "cuda")
    assert not attention.fits(44, 64, "cuda")
