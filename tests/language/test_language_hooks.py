"""Hooks of language models: they change nothing by themselves, and what they replace takes effect."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_decoders import FAMILIES, decoder
from torch import Tensor, nn

from hopscope.errors import InputError
from hopscope.language.hooked import HookedDecoder
from hopscope.model.hooks import Hooks, Patched, Pattern, Queried

TOKENS = torch.randint(3, 40, (2, 11), generator=torch.Generator().manual_seed(0))


@pytest.fixture(params=FAMILIES, scope="module")
def family(request: pytest.FixtureRequest) -> tuple[Any, HookedDecoder, Tensor]:
    """A model twice, once without hooks, and the logits of the former."""
    plain = decoder(request.param)
    with torch.no_grad():
        return plain, HookedDecoder(decoder(request.param)), plain(input_ids=TOKENS, use_cache=False).logits


def logits(model: HookedDecoder, hooks: Hooks | None = None, tokens: Tensor = TOKENS) -> Tensor:
    """Logits with hooks."""
    with torch.no_grad():
        return model.answers(model.run(model.embed(tokens[None]), hooks=hooks))[0]


class Replayed(Hooks):
    """Patterns recorded elsewhere."""

    def __init__(self, patterns: list[Pattern]) -> None:
        self.patterns = patterns

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        return self.patterns[layer]


class Swapped(Hooks):
    """In one layer, two heads attend to what the other one attends to."""

    def __init__(self, layer: int) -> None:
        self.layer = layer

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        return pattern.roll(1, dims=2) if layer == self.layer else pattern


class Silent(Hooks):
    """In one layer, attention writes nothing."""

    def __init__(self, layer: int) -> None:
        self.layer = layer

    def attn_out(self, layer: int, written: Queried) -> Queried:
        return torch.zeros_like(written) if layer == self.layer else written


def test_without_changes_the_logits_are_the_models_own(family: tuple[Any, HookedDecoder, Tensor]) -> None:
    _, model, own = family
    torch.testing.assert_close(logits(model), own, rtol=1e-4, atol=1e-4)


def test_patterns_are_the_librarys(family: tuple[Any, HookedDecoder, Tensor]) -> None:
    plain, model, _ = family
    plain.set_attn_implementation("eager")
    with torch.no_grad():
        given = plain(input_ids=TOKENS, use_cache=False, output_attentions=True).attentions
    for pattern, expected in zip(model.patterns(TOKENS[None]), given, strict=True):
        torch.testing.assert_close(pattern[0], expected, rtol=1e-4, atol=1e-5)


def test_replayed_patterns_change_nothing_and_other_patterns_do(family: tuple[Any, HookedDecoder, Tensor]) -> None:
    _, model, own = family
    recorded = Patched()
    logits(model, recorded)
    torch.testing.assert_close(logits(model, Replayed(recorded.patterns)), own, rtol=1e-4, atol=1e-4)
    others = model.patterns(TOKENS.flip(0, 1)[None])
    assert float((logits(model, Replayed(others)) - own).abs().max()) > 0.1


@pytest.mark.parametrize("hooks", [Swapped, Silent])
def test_hooks_act_in_their_layer_from_any_start(
    family: tuple[Any, HookedDecoder, Tensor], hooks: type[Swapped | Silent]
) -> None:
    _, model, own = family
    changed = [logits(model, hooks(layer)) for layer in range(3)]
    for layer, one in enumerate(changed):
        assert float((one - own).abs().max()) > 0.05
        with torch.no_grad():
            entering = model.run(model.embed(TOKENS[None]), stop=layer, hooks=hooks(layer))
            later = model.answers(model.run(entering, start=layer, hooks=hooks(layer)))[0]
        torch.testing.assert_close(later, one, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(changed[0], changed[1], atol=1e-2)


@pytest.mark.parametrize("layer", [0, 2])
def test_pattern_and_output_from_different_streams(family: tuple[Any, HookedDecoder, Tensor], layer: int) -> None:
    _, model, _ = family
    at = 6
    with torch.no_grad():
        seen = Patched()
        x = model.run(model.embed(TOKENS[None]), stop=layer)
        model.run(x, start=layer, stop=layer + 1, hooks=seen)
        own, wrote = seen.patterns[layer], seen.written[layer]
        torch.testing.assert_close(model.pattern_of(layer, x, x), own)
        torch.testing.assert_close(model.attn_out_of(layer, own, x), wrote)
        other = x.clone()
        other[:, :, at] = x.flip(1)[:, :, at]
        query, key = model.pattern_of(layer, other, x), model.pattern_of(layer, x, other)
        value = model.attn_out_of(layer, own, other)
    sunk = 1 - query.sum(dim=-1)  # by GPT-OSS alone
    assert float(sunk.min()) > -1e-5
    assert (float(sunk.max()) > 0.01) == ("GptOss" in type(model._model).__name__)
    elsewhere = torch.arange(own.shape[-1]) != at
    torch.testing.assert_close(query[..., elsewhere, :], own[..., elsewhere, :])  # one query alone is another
    assert float((query[..., at, :] - own[..., at, :]).abs().max()) > 1e-3
    torch.testing.assert_close(key[..., :at, :], own[..., :at, :])  # a key is seen by itself and those behind it,
    assert float((key[..., at:, :] - own[..., at:, :]).abs().max()) > 1e-3
    others = (pattern[..., at:, elsewhere] for pattern in (key, own))  # which attend to the rest in the same shares
    torch.testing.assert_close(
        *(pattern / pattern.sum(dim=-1, keepdim=True) for pattern in others), rtol=1e-3, atol=1e-5
    )
    torch.testing.assert_close(value[:, :, :at], wrote[:, :, :at])
    assert float((value[:, :, at:] - wrote[:, :, at:]).abs().max()) > 1e-4


def test_with_untrained_changes_one_head_alone(family: tuple[Any, HookedDecoder, Tensor]) -> None:
    _, model, own = family
    other = model.with_untrained([(1, 2)], seed=0)
    torch.testing.assert_close(logits(model), own, rtol=1e-4, atol=1e-4)
    own, others = (each.patterns(TOKENS[None]) for each in (model, other))
    changed = [
        [float((a - b)[0, :, head].abs().max()) > 1e-4 for head in range(4)] for a, b in zip(own, others, strict=True)
    ]
    assert changed[0] == [False] * 4
    assert changed[1] == [False, False, True, False]
    assert any(changed[2])


def test_an_encoder_is_refused() -> None:
    import transformers

    config = transformers.BertConfig(
        vocab_size=40, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48
    )
    model = transformers.BertForMaskedLM(config)
    with pytest.raises(InputError, match="circuits need a decoder"):
        HookedDecoder(model)


def test_attention_that_bypasses_the_pattern_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = decoder("llama")

    def other(self: nn.Module, hidden_states: Tensor, **named: Any) -> tuple[Tensor, None]:
        return hidden_states.cumsum(1), None

    for layer in model.model.layers:
        monkeypatch.setattr(layer.self_attn, "forward", other.__get__(layer.self_attn))
    with pytest.raises(InputError, match="3 layers but 0 attention patterns"):
        HookedDecoder(model)


_SMALL: dict[str, Any] = {"vocab_size": 40, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}


@pytest.mark.parametrize("name", ["GPTJ", "CodeGen"])
def test_families_without_an_attention_interface_are_refused(name: str) -> None:
    import transformers

    config = getattr(transformers, f"{name}Config")(**_SMALL, rotary_dim=4, bos_token_id=1, eos_token_id=2)
    with pytest.raises(InputError, match=f"{name}ForCausalLM has an attention of its own kind"):
        HookedDecoder(getattr(transformers, f"{name}ForCausalLM")(config))


def test_a_family_that_is_built_otherwise_is_refused_without_names_from_inside() -> None:
    import transformers

    config = transformers.FalconH1Config(
        vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8, mamba_d_state=8,
        mamba_chunk_size=8, pad_token_id=0,
    )  # fmt: skip
    with pytest.raises(InputError, match=r"not built like those of known .*; use a model of another") as refused:
        HookedDecoder(transformers.FalconH1ForCausalLM(config))
    assert "hopscope_model" not in str(refused.value)


@pytest.mark.parametrize("shared", [1, 2])
def test_untrained_keys_and_values_where_no_other_head_shares_them(shared: int) -> None:
    """In a projection that has all three too."""
    import transformers

    config = transformers.Phi3Config(
        vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4 // shared, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = transformers.Phi3ForCausalLM(config)
    mixed = HookedDecoder(model).with_untrained([(1, 2)], seed=0)._model
    own, others = (each.model.layers[1].self_attn.qkv_proj.weight for each in (model, mixed))
    changed = (own != others).any(dim=1).view(-1, 8).any(dim=1).nonzero().flatten().tolist()
    assert changed == ([2, 6, 10] if shared == 1 else [2])


def test_attention_that_is_no_sum_over_its_rows_is_refused() -> None:
    """A norm after the heads: what one row writes depends on all others."""
    import transformers

    config = transformers.BitNetConfig(
        vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    with pytest.raises(InputError, match="the attention output of BitNetForCausalLM is not the sum over its rows"):
        HookedDecoder(transformers.BitNetForCausalLM(config))
