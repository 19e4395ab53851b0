"""Our transformer as one of TransformerLens: the same weights and values, under that library's names and hooks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from hopscope.errors import InputError, needs_extra
from hopscope.model.transformer import Block, LayerNorm, Linear, Transformer
from hopscope.records import write_bytes, write_text

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge

OPENING = """
import json
from safetensors.torch import load_file
from torch import nn
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module
from transformer_lens.model_bridge.sources.native import NativeModel

config = TransformerBridgeConfig(**json.load(open("config.json")))
weights = load_file("model.safetensors")
embed = {name: weights.pop(f"embed.{name}") for name in ("weight", "bias")}
native = NativeModel(config)
native.head = nn.Linear(config.d_model, config.d_vocab_out)
native.load_state_dict(weights)
bridge = build_bridge_from_module(native, "TransformerLensNative", tl_config=config, tokenizer=None)


def stream(inputs):  # [sequence, position, d_input], as `hopscope sample vectors` prints them
    return inputs @ embed["weight"].T + embed["bias"]


# answers, cache = bridge.run_with_cache(stream(inputs), start_at_layer=0)
# cache["blocks.0.attn.hook_pattern"]  # [sequence, head, query, key]
""".lstrip()
"""Code that opens an exported folder without hopscope."""


def to_transformer_lens(transformer: Transformer, positions: int) -> TransformerBridge:
    """One model as a native `TransformerBridge`, which caches, patches and edits it as any other.

    Our inputs are vectors, so the bridge takes the stream after our embedding, [sequence, position, d_model], with
    `start_at_layer=0`; its logits are our answers, at all positions.

    Args:
        transformer: one model.
        positions: largest number of positions in a sequence.

    Raises:
        InputError: TransformerLens is not installed, or there is more than one model.
    """
    config, weights = _config(transformer, positions), _weights(transformer, positions)
    try:
        from transformer_lens.config import TransformerBridgeConfig
        from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module
        from transformer_lens.model_bridge.sources.native import NativeModel
    except ImportError:
        raise needs_extra("this export", "TransformerLens 4", "transformer-lens") from None
    made = TransformerBridgeConfig(**config)
    native = NativeModel(made)
    native.head = nn.Linear(made.d_model, made.d_vocab_out)
    native.load_state_dict(weights)
    native.requires_grad_(False)
    device = transformer.read.weight.device
    return build_bridge_from_module(native, "TransformerLensNative", tl_config=made, tokenizer=None, device=device)


def export_to_transformer_lens(transformer: Transformer, positions: int, folder: Path) -> None:
    """Write what TransformerLens needs: its configuration, weights under its names, our embedding, and code to open it.

    Args:
        transformer: one model.
        positions: largest number of positions in a sequence.
        folder: a new or empty folder.

    Raises:
        InputError: there is more than one model, or the folder is in use.
    """
    from safetensors.torch import save

    config, weights = _config(transformer, positions), _weights(transformer, positions)
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is in use; choose a new or empty folder")
    embed = _of(transformer.embed, "embed")
    folder.mkdir(parents=True, exist_ok=True)
    whole = {name: weight.detach().cpu().contiguous() for name, weight in (weights | embed).items()}
    write_bytes(folder / "model.safetensors", save(whole))
    write_text(folder / "open.py", OPENING)
    write_text(folder / "config.json", json.dumps(config, indent=2) + "\n")


def _config(transformer: Transformer, positions: int) -> dict[str, Any]:
    """The arguments of a `TransformerBridgeConfig`."""
    shape = transformer.shape
    if transformer.models != 1:
        raise InputError(f"one model can be exported at a time, got {transformer.models}; take one with `single`")
    return {
        "d_model": shape.d_model,
        "d_head": shape.d_head,
        "n_layers": shape.layers,
        "n_heads": shape.heads,
        "n_ctx": positions,
        "d_vocab": 1,
        "d_vocab_out": shape.d_output,
        "d_mlp": 4 * shape.d_model,
        "act_fn": "gelu_new",
        "attn_only": not shape.mlp,
        "normalization_type": "LN" if shape.layer_norm else None,
        "attention_dir": "causal" if shape.causal else "bidirectional",
        "init_weights": False,
    }


def _weights(transformer: Transformer, positions: int) -> dict[str, Tensor]:
    """Our weights under TransformerLens's names. Those of tokens and positions, which our inputs contain, are zero."""
    width, some = transformer.shape.d_model, transformer.read.weight
    weights = {"tok_embed.weight": some.new_zeros(1, width), "pos.weight": some.new_zeros(positions, width)}
    for layer, block in enumerate(transformer.blocks):
        assert isinstance(block, Block)
        ours: Mapping[str, nn.Module] = {
            "ln1": block.attention_norm,
            "ln2": block.mlp_norm,
            **{f"attn.{name[0]}": getattr(block.attention, name) for name in ("query", "key", "value", "out")},
            **({} if block.mlp is None else {"mlp.fc_in": block.mlp.up, "mlp.fc_out": block.mlp.down}),
        }
        for name, module in ours.items():
            weights |= _of(module, f"layers.{layer}.{name}")
        for name in (f"layers.{layer}.attn.q.{part}" for part in ("weight", "bias")):  # it divides by sqrt(d_head)
            weights[name] = weights[name] * (transformer.shape.d_head**0.5 / transformer.shape.divisor)
    return weights | _of(transformer.norm, "ln_out") | _of(transformer.read, "head")


def _of(module: nn.Module, name: str) -> dict[str, Tensor]:
    """Weight and bias of a map or norm, without the model axis; empty for a module without weights."""
    if not isinstance(module, Linear | LayerNorm):
        return {}
    return {f"{name}.weight": module.weight[0].T.squeeze(1), f"{name}.bias": module.bias[0, 0]}
