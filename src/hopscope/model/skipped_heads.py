"""Skip the computation of heads that write nothing, such as pruned heads, and of rows that hooks replace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.kernels import Bias, FixedRows, Weight
from hopscope.model.hooks import Hooks
from hopscope.model.transformer import Attention, Transformer


class SkippingHooks(Hooks):
    """Hooks that state in advance what they do to a layer, so that a `FastTransformer` computes less."""

    def among(self, layer: int, heads: Sequence[int]) -> Hooks | None:
        """Return the same hooks for a layer in which only `heads`, from 0, are computed; all others write nothing.

        Returns None, as this class does, if the hooks need the patterns of all heads.
        """
        return None

    def fixed(self, layer: int) -> FixedRows | None:
        """Return all rows that `pattern` replaces in a layer; None if they depend on the layer's own pattern."""
        return None


def those_that_write(transformer: Transformer) -> Bool[Tensor, "model layer head"]:
    """Return, on the CPU, which heads have an output weight that is not zero. Pruned heads have none."""
    shape = transformer.models, transformer.shape.heads, -1
    outs = [block.attention.out.weight.reshape(shape) for block in transformer.blocks]
    return torch.stack([out.any(dim=2) for out in outs], dim=1).cpu()


class Present(NamedTuple):
    """The heads of an attention that write something, by number."""

    heads: tuple[int, ...]
    columns: Int[Tensor, " inner"]
    """The columns of these heads in queries, keys and values, head after head."""
    version: int | None = None
    """torch's count of writes to the output weights for which `heads` is valid; None if `heads` is always valid."""

    @classmethod
    def of(cls, attention: Attention, heads: Bool[Tensor, " head"]) -> Present:
        """Return the heads that are True in `heads`; the result does not expire when weights are written to."""
        columns = heads.repeat_interleave(attention.d_head).nonzero().flatten()
        return cls(tuple(heads.nonzero().flatten().tolist()), columns.to(attention.out.weight.device))


class SomeColumns(NamedTuple):
    """Some columns or rows of a linear map."""

    weight: Weight
    bias: Bias


class SomeHeads(NamedTuple):
    """Some heads of an attention, as if it had no other heads."""

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
        """Take the heads of `present` from `attention`."""
        numbers = present.columns.to(attention.out.weight.device)
        query, key, value = (
            SomeColumns(linear.weight.index_select(2, numbers), linear.bias.index_select(2, numbers))
            for linear in (attention.query, attention.key, attention.value)
        )
        out = SomeColumns(attention.out.weight.index_select(1, numbers), attention.out.bias)
        heads, mask = len(present.heads), attention.mask
        return cls(heads, attention.d_head, attention.causal, attention.divisor, mask, query, key, value, out)
