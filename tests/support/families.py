"""Small random decoders of the families that people use, made on the spot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers

_WIDE: dict[str, Any] = {
    "vocab_size": 40, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
_GROUPED = {**_WIDE, "num_key_value_heads": 2}
_WINDOWED = {**_GROUPED, "head_dim": 12, "sliding_window": 5}

FAMILIES: dict[str, Callable[[], Any]] = {
    "gpt2": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=40, n_positions=64, n_embd=32, n_layer=3, n_head=4, eos_token_id=2)
    ),
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**_GROUPED)),
    "mistral, with a window": lambda: transformers.MistralForCausalLM(transformers.MistralConfig(**_WINDOWED)),
    "qwen2": lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**_GROUPED)),
    "qwen3": lambda: transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**_GROUPED, head_dim=12)),
    "gemma": lambda: transformers.GemmaForCausalLM(transformers.GemmaConfig(**_GROUPED, head_dim=12)),
    "gemma 2, with soft caps and windows": lambda: transformers.Gemma2ForCausalLM(
        transformers.Gemma2Config(**_WINDOWED, query_pre_attn_scalar=12)
    ),
    "gemma 3": lambda: transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(**_WINDOWED)),
    "gpt neox": lambda: transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**_WIDE)),
    "gpt bigcode": lambda: transformers.GPTBigCodeForCausalLM(
        transformers.GPTBigCodeConfig(
            vocab_size=40, n_positions=64, n_embd=32, n_layer=3, n_head=4, multi_query=False, eos_token_id=2
        )
    ),
    "gpt bigcode, keys shared": lambda: transformers.GPTBigCodeForCausalLM(
        transformers.GPTBigCodeConfig(vocab_size=40, n_positions=64, n_embd=32, n_layer=3, n_head=4, eos_token_id=2)
    ),
    "phi": lambda: transformers.PhiForCausalLM(transformers.PhiConfig(**_WIDE)),
    "phi 3": lambda: transformers.Phi3ForCausalLM(transformers.Phi3Config(**_GROUPED)),
}  # fmt: skip
"""By name: a model with random weights, large enough that heads do something."""


def decoder(name: str) -> Any:
    """A model of a family; the same each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = FAMILIES[name]()
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() == 2:
                    weight.normal_(0, 0.3)
                elif not bool(weight.any()):
                    weight.normal_(0, 0.1)
    return model.eval()


def stir(model: Any, by: float = 0.2) -> Any:
    """A new model whose layers do something."""
    with torch.no_grad():
        for number, weight in enumerate(model.parameters()):
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(number)), alpha=by)
    return model
