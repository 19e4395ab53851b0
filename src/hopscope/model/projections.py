"""Where the weights of one head stand in the attention of a language model's family."""

from __future__ import annotations

from typing import Any

from hopscope.errors import InputError
from hopscope.model.architecture import Architecture


def copy_head(mine: Any, theirs: Any, head: int, shape: Architecture) -> None:
    """Give a head of the attention `mine` the weights it has in `theirs`.

    Queries and output; keys and values too where no other head shares them.

    Raises:
        InputError: a family whose projections are not known.
    """
    width, parts = shape.d_head, dict(theirs.named_parameters())
    here = slice(head * width, (head + 1) * width)
    alone = getattr(mine, "num_key_value_groups", 1) == 1
    known = 0
    for name, weight in mine.named_parameters():
        other, kind = parts[name], name.split(".")[0]
        if kind == "c_attn":  # GPT-2: queries, keys and values side by side, inputs first
            for start in range(0, 3 * shape.heads * width, shape.heads * width):
                there = slice(start + here.start, start + here.stop)
                weight[..., there] = other[..., there]
        elif kind in ("q_proj", "qkv_proj") or (kind in ("k_proj", "v_proj") and alone):
            weight[here] = other[here]  # of qkv_proj queries come first
        elif kind == "c_proj" and weight.dim() == 2:
            weight[here] = other[here]
        elif kind in ("o_proj", "dense", "out_proj") and weight.dim() == 2:
            weight[:, here] = other[:, here]
        else:
            continue
        known += 1
    if known < 2:
        raise InputError(f"the projections of {type(mine).__name__} are not known, so no head can be untrained")
