"""Attention in one pass is the plain attention: values, gradients, shares of the batch, and where it is not used."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hopscope.kernels import fused_attention
from hopscope.model.architecture import Architecture
from hopscope.model.fast import FastTransformer
from hopscope.model.hooks import Hooks
from hopscope.model.initial_weights import initialise
from hopscope.model.transformer import Transformer
from hopscope.training.execution import using_threads

needs_compiler = pytest.mark.skipif(
    not fused_attention.available(), reason="no C compiler: attention goes the plain way"
)


def plain(made: Tensor, heads: int, causal: bool) -> Tensor:
    query, key, value = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in made.chunk(3, dim=-1))
    scores = query @ key.mT
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -torch.inf)
    return (scores.softmax(dim=-1) @ value).transpose(1, 2).flatten(2)


@needs_compiler
@settings(max_examples=60, deadline=None)
@given(
    sequences=st.integers(0, 5),
    positions=st.integers(1, fused_attention.MOST),
    last=st.one_of(st.none(), st.integers(1, fused_attention.MOST)),
    heads=st.integers(1, 3),
    d_head=st.sampled_from([1, 4, 5, 8, 16, 32, 64, 100, 128]),
    causal=st.booleans(),
    size=st.sampled_from([0.0, 1.0, 30.0]),
    threads=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_values_and_gradients(sequences, positions, last, heads, d_head, causal, size, threads, seed):
    """Every size, scores from all equal to one-hot, the batch shared out or not; the last positions as if all asked."""
    generator, inner = torch.Generator().manual_seed(seed), heads * d_head
    positions = positions if fused_attention.fits(positions, d_head) else 32
    asking = positions if last is None else min(last, positions)
    made = torch.randn(sequences, positions, 3 * inner, generator=generator)
    made[..., :inner] *= size / d_head**0.5
    gradient = torch.randn(sequences, asking, inner, generator=generator)
    quick, exact = made.clone().requires_grad_(), made.double().requires_grad_()
    with using_threads(threads):
        if last is None:
            weighted = fused_attention.attend(quick, heads, causal)
        else:
            query, rest = quick[:, -asking:, :inner].contiguous(), quick[..., inner:].contiguous()
            weighted = fused_attention.attend_last(query, rest, heads, causal)
        weighted.backward(gradient)
    expected = plain(exact, heads, causal)[:, -asking:]
    expected.backward(gradient.double())
    torch.testing.assert_close(weighted.double(), expected, rtol=0, atol=1e-5 * max(1.0, size))
    torch.testing.assert_close(quick.grad.double(), exact.grad, rtol=0, atol=2e-5 * max(1.0, size) * d_head**0.5)


@needs_compiler
@pytest.mark.parametrize("d_head", [5, 8, 16])
def test_bf16_is_read_and_written_as_torch_does(d_head):
    """The same numbers, so that only the last digit of bf16 may differ; and what is not a number stays so."""
    generator = torch.Generator().manual_seed(d_head)
    made = torch.randn(3, 28, 3 * 2 * d_head, generator=generator).bfloat16()
    gradient = torch.randn(3, 28, 2 * d_head, generator=generator).bfloat16()
    narrow, wide = made.clone().requires_grad_(), made.float().requires_grad_()
    weighted, expected = fused_attention.attend(narrow, 2, True), fused_attention.attend(wide, 2, True)
    assert (weighted.dtype, expected.dtype) == (torch.bfloat16, torch.float32)
    torch.testing.assert_close(weighted, expected.bfloat16(), rtol=0, atol=0)
    weighted.backward(gradient)
    expected.backward(gradient.float())
    torch.testing.assert_close(narrow.grad, wide.grad.bfloat16(), rtol=0, atol=0)
    made[0, 3] = torch.nan
    assert fused_attention.attend(made, 2, True)[0, 3:].isnan().all()


@needs_compiler
def test_a_model_is_the_plain_one():
    shape = Architecture(d_input=20, d_output=8, reads=2, layers=3, heads=4, d_model=16, head_dim=8, mlp=True)
    quick, slow = FastTransformer(shape, 2), Transformer(shape, 2)
    initialise(slow, [1, 2])
    quick.load_state_dict(slow.state_dict())
    quick.fuse()
    assert all(block.fused for block in quick.blocks)
    inputs = torch.randn(2, 5, 28, 20, generator=torch.Generator().manual_seed(0))
    for transformer in (quick, slow):
        transformer(inputs).square().mean().backward()
    torch.testing.assert_close(quick(inputs), slow(inputs), rtol=1e-5, atol=1e-6)
    for parameter, theirs in zip(quick.parameters(), slow.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, theirs.grad, rtol=1e-4, atol=1e-7)


@needs_compiler
def test_attention_with_hooks_or_patterns_goes_by_torch(monkeypatch):
    shape = Architecture(d_input=20, d_output=8, reads=2, layers=2, heads=1, d_model=16)
    quick = FastTransformer(shape, 1)
    quick.fuse()
    inputs = torch.randn(1, 2, 10, 20)
    monkeypatch.setattr(fused_attention, "attend", lambda *_: pytest.fail("not asked"))
    monkeypatch.setattr(fused_attention, "attend_last", lambda *_: pytest.fail("not asked"))
    assert quick.patterns(inputs)[0].shape == (1, 2, 1, 10, 10)
    quick(inputs, hooks=Hooks())


@needs_compiler
def test_sizes_too_large_are_refused_or_go_by_torch(monkeypatch):
    with pytest.raises(ValueError, match="at most 80"):
        fused_attention.attend(torch.zeros(1, fused_attention.MOST + 1, 3), 1, True)
    with pytest.raises(ValueError, match="at most 80 positions, a d_head of 128 and 4096 numbers, got 2 and 129"):
        fused_attention.attend(torch.zeros(1, 2, 3 * 129), 1, True)
    quick = FastTransformer(Architecture(20, 8, 2, 2, 1, 16), 1)
    quick.fuse()
    monkeypatch.setattr(fused_attention, "attend", lambda *_: pytest.fail("too long"))
    quick(torch.randn(1, 2, fused_attention.MOST + 1, 20))
