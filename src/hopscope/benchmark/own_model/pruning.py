"""Heads that a model of our own learns to do without: taken away one by one while it trains on.

A head is gone when its columns of the output map are zero: it writes nothing. That is all there is to remember, so a
training that was interrupted needs no list of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

Head = tuple[int, int]
"""Layer and head, both from 0."""


def heads_of(model: Any) -> list[Head]:
    """All heads, gone or not, by layer."""
    config = model.config
    return [(layer, head) for layer in range(config.num_hidden_layers) for head in range(config.num_attention_heads)]


def heads_gone(model: Any) -> list[Head]:
    """The heads that write nothing."""
    return [head for head in heads_of(model) if not _writes(model, head).any()]


def take_away(model: Any, heads: Iterable[Head]) -> None:
    """Let heads write nothing; after an update again, since an optimizer moves zeros too."""
    with torch.no_grad():
        for head in heads:
            _writes(model, head).zero_()


def prune(model: Any, loss: Callable[[], float], cost: float) -> Head | None:
    """Take away the head without which the loss is least.

    Args:
        model: of which it is taken.
        loss: of the model as it is when this is called.
        cost: by how much the loss may rise at once; where every head costs more, none is taken.

    Returns:
        The head; None where none was taken.
    """
    found: tuple[float, Head] | None = None
    gone = set(heads_gone(model))
    for head in (one for one in heads_of(model) if one not in gone):
        kept = _writes(model, head).detach().clone()
        take_away(model, [head])
        without = loss()
        with torch.no_grad():
            _writes(model, head).copy_(kept)
        if math.isfinite(without) and (found is None or without < found[0]):
            found = without, head
    if found is None or found[0] > loss() + cost:
        return None
    take_away(model, [found[1]])
    return found[1]


def _writes(model: Any, head: Head) -> Float[Tensor, "d_model d_head"]:
    """What takes a head's values to the residual stream: a view of the layer's output map."""
    layer, number = head
    width = model.config.hidden_size // model.config.num_attention_heads
    weight: Tensor = model.model.layers[layer].self_attn.o_proj.weight
    return weight[:, number * width : (number + 1) * width]
