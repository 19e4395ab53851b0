"""Every family of causal language models of the library opens, or is refused in a sentence; none with a traceback.

A family of which no small random model can be made by the names below is left out.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import torch
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as NAMES

from hopscope.errors import InputError
from hopscope.language.hooked import HookedDecoder

_SMALL: dict[str, Any] = {
    "vocab_size": 40, "hidden_size": 32, "n_embd": 32, "d_model": 32, "intermediate_size": 48, "ffn_dim": 48,
    "d_ff": 48, "num_hidden_layers": 2, "n_layer": 2, "num_layers": 2, "n_layers": 2, "decoder_layers": 2,
    "encoder_layers": 2, "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4,
    "decoder_attention_heads": 4, "encoder_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 8,
    "max_position_embeddings": 64, "n_positions": 64, "max_seq_len": 64, "rotary_dim": 4, "rotary_pct": 1.0,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "word_embed_proj_dim": 32, "num_local_experts": 2,
    "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16, "layer_types": None, "sliding_window": 64,
    "attention_types": [[["global", "local"], 1]],
    "is_decoder": True, "decoder_ffn_dim": 48, "encoder_ffn_dim": 48, "ffn_hidden_size": 48, "num_kv_heads": 4,
}  # fmt: skip

_MOST = 20_000_000
"""The most weights that a small model may have; one that has more is larger in a way that these names do not reach."""


def small_model(name: str) -> Any | None:
    """A small random model of a family; None where these names make none."""
    try:
        made = transformers.AutoConfig.for_model(name)
        config = type(made)(**{key: value for key, value in _SMALL.items() if hasattr(made, key)})
        kind = getattr(transformers, NAMES[name])
        with torch.device("meta"):
            weights = sum(weight.numel() for weight in kind(config).parameters())
        if weights > _MOST:
            return None
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(0)
            model = kind(config).eval()
            model(input_ids=torch.arange(12).expand(2, -1), use_cache=False)
        return model
    except Exception:  # a family that is made otherwise
        return None


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(NAMES))
@pytest.mark.filterwarnings("ignore")
def test_every_family_opens_or_is_refused_in_one_sentence(name: str) -> None:
    model = small_model(name)
    if model is None:
        pytest.skip("no small model of this family is made by these names")
    with suppress(InputError):
        HookedDecoder(model)
