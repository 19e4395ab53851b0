"""Do positions reach one another through attention patterns alone? Hooks on patterns show nothing of what goes beside
them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hopscope.model.hooks import HookedModel, Hooks, Pattern, Queried, Stream


class AtItself(Hooks):
    """Hooks that make every position attend to itself, in every head."""

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """All weight on the position itself."""
        queries, keys = pattern.shape[-2:]
        itself = torch.eye(keys, dtype=pattern.dtype, device=pattern.device)[keys - queries :]
        return itself.expand(pattern.shape)


@torch.no_grad()
def reach_beside(
    model: HookedModel,
    here: Float[Tensor, "batch pos d_input"] | Int[Tensor, "batch pos"],
    there: Float[Tensor, "batch pos d_input"] | Int[Tensor, "batch pos"],
    read: Callable[[Stream], Queried] = lambda x: x,
) -> float:
    """How much positions that look at themselves alone still differ by what stands around them, as a share of the
    largest value, or of 1. A short convolution reaches beside the patterns, and so does a second attention not shown.

    Args:
        model: the model.
        here: inputs.
        there: other inputs, of which every second position is put among the first.
        read: what is compared of the stream after the last block.
    """
    second = torch.arange(here.shape[1], device=here.device) % 2 == 1
    mixed = torch.where(second.view(-1, *[1] * (here.ndim - 2)), there, here)
    one, other, both = (read(model.run(model.embed(x[None]), hooks=AtItself())) for x in (here, there, mixed))
    wanted = torch.where(second[-both.shape[2] :, None], other, one)
    return float((both - wanted).abs().max()) / max(1.0, float(wanted.abs().max()))
