"""A model with some untrained heads: a negative control on weights."""

from __future__ import annotations

from collections.abc import Sequence

from hopscope.model.initial import initialise
from hopscope.model.initial_weights import InitialWeights
from hopscope.model.transformer import Attention, Block, Transformer


def with_untrained_heads(
    model: Transformer, heads: Sequence[tuple[int, int]], seed: int, drawn: InitialWeights
) -> Transformer:
    """A copy of one model in which some heads have initial weights: queries, keys, values and output.

    Args:
        model: a transformer that holds one model.
        heads: the heads as (layer, head), from 0.
        seed: the seed of the initial weights.
        drawn: how they are drawn; as the model's own were, or they would be no control.
    """
    mixed, fresh = (type(model)(model.shape, 1) for _ in range(2))
    initialise(fresh, [seed], drawn)
    mixed.load_state_dict(model.state_dict())
    for one in (mixed, fresh):
        one.requires_grad_(False)
    width = model.shape.d_head
    for layer, head in heads:
        here, (mine, theirs) = slice(head * width, (head + 1) * width), (_attention(m, layer) for m in (mixed, fresh))
        for name in ("query", "key", "value"):
            for kind in ("weight", "bias"):
                getattr(getattr(mine, name), kind)[..., here] = getattr(getattr(theirs, name), kind)[..., here]
        mine.out.weight[:, here] = theirs.out.weight[:, here]
    return mixed


def _attention(model: Transformer, layer: int) -> Attention:
    block = model.blocks[layer]
    assert isinstance(block, Block)
    return block.attention
