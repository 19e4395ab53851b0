"""Heads that write nothing, as pruned ones do, and rows that hooks replace need not be computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.kernels import Bias, FixedRows, Weight
from hopscope.model.hooks import Hooks
from hopscope.model.transformer import Attention, Block, Transformer


class SkippingHooks(Hooks):
    """Hooks that say beforehand what they do to a layer, so that a `FastTransformer` computes less."""

    def among(self, layer: int, heads: Sequence[int]) -> Hooks | None:
        """The same hooks for a layer of which only these heads, from 0, are computed, since the others write nothing.

        None, as in this class, where they need the patterns of all heads.
        """
        return None

    def fixed(self, layer: int) -> FixedRows | None:
        """All that `pattern` does to a layer, where this is known beforehand; None where it depends on the pattern."""
        return None


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
    divisor: float
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
            SomeColumns(linear.weight.index_select(2, numbers), linear.bias.index_select(2, numbers))
            for linear in (attention.query, attention.key, attention.value)
        )
        out = SomeColumns(attention.out.weight.index_select(1, numbers), attention.out.bias)
        heads, mask = len(present.heads), attention.mask
        return cls(heads, attention.d_head, attention.causal, attention.divisor, mask, query, key, value, out)
