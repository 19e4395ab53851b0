"""The attention function that is put in the place of a language model's own: it shows its pattern, and may change it.

A module says by `hopscope_seam` through which `hopscope.model.language.LanguageModel` its attention is looked at.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

SHOWN = "hopscope"
"""The name of our attention function among the library's."""


def attend(
    module: Any,
    query: Float[Tensor, "batch head pos d_head"],
    key: Float[Tensor, "batch group pos d_head"],
    value: Float[Tensor, "batch group pos d_value"],
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    **others: Any,
) -> tuple[Float[Tensor, "batch pos head d_value"], Float[Tensor, "batch head pos pos"]]:
    """softmax(q k) v, computed explicitly, with keys and pattern as the hooks of the language model leave them."""
    hooks, shared = module.hopscope_seam.hooks, query.shape[1] // key.shape[1]
    key = hooks.keys(module.layer_idx, key)
    key, value = (one.repeat_interleave(shared, dim=1) for one in (key, value))
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if attention_mask is not None:
        scores = scores + attention_mask[..., : key.shape[-2]]
    pattern = hooks.pattern(module.layer_idx, scores.softmax(dim=-1, dtype=torch.float32).to(query.dtype)[None])[0]
    return (pattern @ value).transpose(1, 2).contiguous(), pattern


def show_attention() -> None:
    """Add the function to the library's."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    AttentionInterface.register(SHOWN, attend)
    AttentionMaskInterface.register(SHOWN, eager_mask)
