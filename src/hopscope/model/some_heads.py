"""Some heads of an attention, as if there were no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.kernels.products import Bias, Weight
from hopscope.model.held import HeldHead
from hopscope.model.transformer import Attention, Block, Transformer


def those_that_write(transformer: Transformer) -> Bool[Tensor, "model layer head"]:
    """The heads whose output weights are not all zero, as those of pruned ones are; on the CPU."""
    blocks = [block for block in transformer.blocks if isinstance(block, Block)]
    outs = [block.attention.out.weight.reshape(transformer.models, transformer.shape.heads, -1) for block in blocks]
    return torch.stack([out.any(dim=2) for out in outs], dim=1).cpu()


class Present(NamedTuple):
    """The heads of an attention that write something, by number."""

    heads: tuple[int, ...]
    columns: Int[Tensor, " inner"]
    """Theirs, head after head, in queries, keys and values."""
    version: int | None = None
    """Of the output weights, as torch counts how often they were written to, of which this is said; None for all."""

    @classmethod
    def of(cls, attention: Attention, heads: Bool[Tensor, " head"]) -> Present:
        """These heads, for good."""
        columns = heads.repeat_interleave(attention.d_head).nonzero().flatten()
        return cls(tuple(heads.nonzero().flatten().tolist()), columns.to(attention.out.weight.device))

    def until_written_to(self, attention: Attention) -> Present:
        """The same of the output weights as they are now."""
        return self._replace(version=attention.out.weight._version)

    def holds_of(self, attention: Attention) -> bool:
        """Whether it is said of the output weights as they are now."""
        return self.version is None or self.version == attention.out.weight._version


class SomeColumns(NamedTuple):
    """Some columns or rows of a linear map."""

    weight: Weight
    bias: Bias


class SomeHeads(NamedTuple):
    """Some heads of an attention, as if there were no others."""

    heads: int
    d_head: int
    causal: bool
    held: tuple[HeldHead, ...]
    mask: Callable[[int, Float[Tensor, "model_batch_head pos d_head"]], Float[Tensor, "query key"]]
    query: SomeColumns
    key: SomeColumns
    value: SomeColumns
    out: SomeColumns

    @classmethod
    def of(cls, attention: Attention, present: Present) -> SomeHeads:
        """These heads."""
        numbers = present.columns.to(attention.out.weight.device)
        query, key, value = (
            SomeColumns(one.weight.index_select(2, numbers), one.bias.index_select(2, numbers))
            for one in (attention.query, attention.key, attention.value)
        )
        out = SomeColumns(attention.out.weight.index_select(1, numbers), attention.out.bias)
        return cls(len(present.heads), attention.d_head, attention.causal, (), attention.mask, query, key, value, out)
