"""A foreign model's maps by our products: the same answers and gradients, its own weights, and nothing else touched."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import nn

from hopscope.kernels import products
from hopscope.kernels.modules import QuickLinear, quicken

there = pytest.mark.skipif(not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch has no oneDNN")


@pytest.fixture
def quicker(monkeypatch):
    monkeypatch.setattr(products, "quicker_here", lambda: True)
    monkeypatch.setattr(products, "_SMALL", 0)


def gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 2}
    return GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)).eval()


def llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=50, num_key_value_heads=1, **sizes)).eval()


@there
@pytest.mark.parametrize("make", [gpt2, llama])
def test_answers_and_gradients_are_the_same(quicker, monkeypatch, make):
    plain, model = make(), make()
    quicken(model)
    assert model.state_dict().keys() == plain.state_dict().keys()
    changed = sum(type(one) is not type(other) for one, other in zip(model.modules(), plain.modules(), strict=True))
    assert changed > 8
    quicken(model)  # again: nothing more
    tokens = torch.randint(0, 50, (64, 30), generator=torch.Generator().manual_seed(1))
    for one in (plain, model):
        one(input_ids=tokens).logits.square().mean().backward()
    torch.testing.assert_close(model(input_ids=tokens).logits, plain(input_ids=tokens).logits, rtol=1e-4, atol=1e-5)
    for mine, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-3, atol=1e-7)
    copied = deepcopy(model)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    torch.testing.assert_close(copied(input_ids=tokens).logits, plain(input_ids=tokens).logits, rtol=1e-4, atol=1e-5)


@there
def test_what_is_no_plain_map_stays(quicker):
    class Other(nn.Linear):
        def forward(self, input):
            return -super().forward(input)

    model = nn.Sequential(Other(64, 64), nn.Linear(64, 64, bias=False), nn.LayerNorm(64))
    quicken(model)
    assert [type(one) for one in model] == [Other, QuickLinear, nn.LayerNorm]
    x = torch.randn(5, 3, 64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(model[1](x), x @ model[1].weight.T, rtol=1e-5, atol=1e-5)
    assert isinstance(model[1], nn.Linear)


def test_where_nothing_is_quicker_nothing_changes(monkeypatch):
    monkeypatch.setattr(products, "quicker_here", lambda: False)
    model = nn.Sequential(nn.Linear(2, 2))
    quicken(model)
    assert type(model[0]) is nn.Linear
