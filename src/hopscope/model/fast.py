"""A faster form of the transformer, with fewer passes over memory, for training and for many forward passes.

A step of a small model is mostly memory traffic. Here LayerNorm's gain and offset are folded into the next linear map,
the scale of scores is folded into the query map, and queries, keys and values are computed in one product. When
compiled, norms, GELU and the gradients of biases have forms that the compiler fuses. The weights, their names and the
answers are the same as in `transformer.py`; tests check that values and gradients agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from hopscope.checks import check_count
from hopscope.kernels import (
    DTYPES,
    EPSILON,
    Bias,
    FixedRows,
    Flat,
    Precision,
    Weight,
    after_norm,
    fused_attention,
    fused_block,
    gelu,
    products,
)
from hopscope.kernels import attention as attention_kernels
from hopscope.model.hooks import Hooks, Pattern, Queried, Stream
from hopscope.model.skipped_heads import Present, SkippingHooks, SomeColumns, SomeHeads, those_that_write
from hopscope.model.transformer import Attention, Block, LayerNorm, Linear, Transformer

Projected = Float[Tensor, "_sequence _pos _made"]
"""Queries, keys or values, or several of these side by side, for the sequences of all models."""

Heads = Float[Tensor, "model_batch_head pos d_head"]

_GELU_LINEAR = 2 * math.sqrt(2 / math.pi)
_GELU_CUBIC = _GELU_LINEAR * 0.044715


class FastBlock(Block):
    """A block that works on rows: all positions of all sequences, stacked."""

    fused = False
    """Whether `kernels/attention.py` computes attention when no hook needs the pattern."""

    whole: Precision | None = None
    """The precision in which `fused_block.py` computes the whole block, provided that the kernel supports its sizes and
    no hooks are used. None if the kernel is never used."""

    present: Present | None = None
    """The heads to compute, if all other heads write nothing; None for all heads."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copy. Writes to a copy's weights are counted from 0, so `present` is dropped if it has a count."""
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        if self.present is not None and self.present.version is not None:
            self.present = None

    def forward(self, x: Stream, reads: int | None = None, hooks: Hooks | None = None) -> Queried:
        """See `Block.forward`."""
        batch, positions = x.shape[1:3]
        last = positions if reads is None else reads
        attention, hooks = self._computed(hooks)
        rows = query_rows = x.flatten(1, 2)
        if last != positions:
            x = x[:, :, -last:]
            query_rows = x.flatten(1, 2)
        if not attention.heads:
            bias = attention.out.bias.to(rows.dtype)  # or the stream would become fp32
            written = bias.expand_as(query_rows)
        else:
            written = self._attended(attention, rows, query_rows, batch, hooks)
        if hooks is not None:
            written = hooks.attn_out(self.layer, written.view(x.shape)).flatten(1, 2)
        out = query_rows + written
        if self.mlp is not None:
            hidden = _gelu(_after(self.mlp_norm, out, self.mlp.up.weight, self.mlp.up.bias))
            out = out + _affine(hidden, self.mlp.down.weight, self.mlp.down.bias)
        return out.view(x.shape)

    def _computed(self, hooks: Hooks | None) -> tuple[Attention | SomeHeads, Hooks | None]:
        """Return the heads to compute and their hooks: only heads that write something, unless hooks need all heads."""
        present = self._writing
        among = hooks.among(self.layer, present.heads) if present and isinstance(hooks, SkippingHooks) else None
        if present is None or (hooks is not None and among is None):
            return self.attention, hooks
        return SomeHeads.of(self.attention, present), among

    @property
    def _writing(self) -> Present | None:
        """The heads that are computed unless hooks need all heads; None for all heads."""
        present = self.present
        return present if present and present.version in (None, self.attention.out.weight._version) else None

    @property
    def skipped(self) -> tuple[int, ...]:
        """The heads that are not computed unless hooks need them."""
        present = self._writing
        return () if present is None else tuple({*range(self.attention.heads)}.difference(present.heads))

    def goes_whole(self, x: Stream) -> bool:
        """Return whether `fused_block.py` can compute this block on the stream `x` when there are no hooks."""
        present = self._writing
        silent = present is not None and not present.heads
        other_scale = self.attention.divisor != math.sqrt(self.attention.d_head)  # the kernel does not support it
        if self.whole is None or x.dtype != DTYPES[self.whole] or silent or other_scale:
            return False
        return fused_block.fits(self.whole, x.shape[2], x.shape[3], self.attention.d_head)

    def parts(self) -> fused_block.BlockParts:
        """Return the sizes and weights of this block, without heads that write nothing."""
        attention, _ = self._computed(None)
        maps: list[Linear | SomeColumns] = [attention.query, attention.key, attention.value, attention.out]
        norms = [self.attention_norm]
        if self.mlp is not None:
            maps += [self.mlp.up, self.mlp.down]
            norms.append(self.mlp_norm)
        return fused_block.BlockParts(
            attention.heads,
            attention.d_head,
            attention.causal,
            [(linear.weight, linear.bias) for linear in maps],
            [(norm.weight, norm.bias) for norm in norms if isinstance(norm, LayerNorm)],
        )

    def _fixed(self, hooks: Hooks, rows: Flat) -> FixedRows | None:
        """Return the rows that hooks replace, or None if `fused_attention` cannot replace them. It can do so for one
        model in fp32 on a CPU, without gradients."""
        plain = rows.dtype == torch.float32 and rows.device.type == "cpu" and rows.shape[0] == 1
        if not plain or torch.is_grad_enabled() or not fused_attention.available():
            return None
        return hooks.fixed(self.layer) if isinstance(hooks, SkippingHooks) else None

    def _attended(
        self,
        attention: Attention | SomeHeads,
        rows: Flat,
        query_rows: Float[Tensor, "model query_row d_in"],
        batch: int,
        hooks: Hooks | None,
    ) -> Float[Tensor, "model query_row d_model"]:
        """Return the output of attention. The pattern is not stored if a kernel can do without it."""
        if query_rows is rows:
            query, rest = None, self._made(attention, rows, batch, attention.query, attention.key, attention.value)
        else:
            query = self._made(attention, query_rows, batch, attention.query)
            rest = self._made(attention, rows, batch, attention.key, attention.value)
        small = attention_kernels.fits(rest.shape[1], attention.d_head, rows.device)
        fixed = self._fixed(hooks, rows) if small and hooks is not None else None
        if small and (fixed is not None or (self.fused and hooks is None)):
            weighted = _fused(attention, query, rest, fixed)
        else:
            pattern, value = _attend(attention, query, rest, batch)
            if hooks is not None:
                pattern = hooks.pattern(self.layer, pattern)
            weighted = _weighted(attention, pattern, value)
        return _affine(weighted.view(*query_rows.shape[:2], -1), attention.out.weight, attention.out.bias)

    def _made(self, attention: Attention | SomeHeads, rows: Flat, batch: int, *maps: Linear | SomeColumns) -> Projected:
        """Apply each map to the normalised rows. One product gives all results side by side, so rows are read once."""
        weights, biases = [linear.weight for linear in maps], [linear.bias for linear in maps]
        if maps[0] is attention.query:
            scale = 1 / attention.divisor
            weights[0], biases[0] = weights[0] * scale, biases[0] * scale
        made = _after(self.attention_norm, rows, torch.cat(weights, dim=-1), torch.cat(biases, dim=-1))
        return made.view(rows.shape[0] * batch, -1, made.shape[-1])


class FastTransformer(Transformer):
    """A `Transformer` with fewer passes over memory."""

    block: ClassVar[type[Block]] = FastBlock
    blocks: Sequence[FastBlock]

    def compute_only(self, left: Bool[Tensor, "model layer head"]) -> None:
        """Skip the heads that are not left in any model. They must write nothing, so that answers stay the same."""
        for block, heads in zip(self.blocks, left.any(dim=0), strict=True):
            block.present = None if heads.all() else Present.of(block.attention, heads)

    def compute_those_that_write(self) -> None:
        """Skip the heads whose output weights are zero, e.g. pruned heads, until these weights are written to.

        Writes through a tensor's `.data` are not noticed, because torch does not count them.
        """
        self.compute_only(those_that_write(self))
        for block in self.blocks:
            block.present = block.present and block.present._replace(version=block.attention.out.weight._version)

    @property
    def skipped(self) -> frozenset[tuple[int, int]]:
        """The heads that are skipped unless hooks need them, as (layer, head) from 0."""
        return frozenset((block.layer, head) for block in self.blocks for head in block.skipped)

    def fuse(self) -> None:
        """Compute attention with the kernels for the weights' device, if this machine has such kernels."""
        available = attention_kernels.available(self.embed.weight.device)
        for block in self.blocks:
            block.fused = available

    def fuse_blocks(self, precision: Precision) -> None:
        """Compute blocks with `fused_block.py` if the stream has `precision` and this machine supports it."""
        for block in self.blocks:
            block.whole = precision if fused_block.available(precision) else None

    def run_layers(self, x: Stream, layers: range, hooks: Hooks | None, reads: int | None) -> Queried:
        """See `HookedModel.run`. Consecutive blocks that `fused_block.py` can compute are computed in one call."""
        whole = {layer: hooks is None and self.blocks[layer].goes_whole(x) for layer in layers}
        for together, grouped in groupby(layers, whole.__getitem__):
            group = [*grouped]
            if together:
                asking = reads if group[-1] == self.shape.layers - 1 else None
                x = fused_block.through(x, [self.blocks[layer].parts() for layer in group], asking)
            else:
                x = super().run_layers(x, range(group[0], group[-1] + 1), hooks, reads)
        return x

    def answers(self, x: Stream) -> Float[Tensor, "model batch pos d_output"]:
        """See `Transformer.answers`."""
        return _after(self.norm, x.flatten(1, 2), self.read.weight, self.read.bias).view(*x.shape[:3], -1)


def single(transformer: Transformer, model: int) -> Transformer:
    """Return model `model` of an ensemble as a transformer of its own."""
    check_count("model", model, 0, transformer.models - 1)
    alone = type(transformer)(transformer.shape, 1)
    alone.load_state_dict({name: tensor[model : model + 1] for name, tensor in transformer.state_dict().items()})
    if isinstance(alone, FastTransformer):
        alone.compute_those_that_write()
    return alone.requires_grad_(False)


def _fused(
    attention: Attention | SomeHeads, query: Projected | None, rest: Projected, fixed: FixedRows | None
) -> Projected:
    """Return the values weighted by the attention pattern, which is not stored."""
    how = attention.heads, attention.causal
    if fixed is not None:
        return fused_attention.attend_edited(rest, *how, fixed, query)
    return attention_kernels.attend(rest, *how) if query is None else attention_kernels.attend_last(query, rest, *how)


def _attend(
    attention: Attention | SomeHeads, query: Projected | None, rest: Projected, batch: int
) -> tuple[Pattern, Heads]:
    parts = rest.chunk(3, dim=-1) if query is None else (query, *rest.chunk(2, dim=-1))
    queries, keys, values = (_cut(part, attention) for part in parts)
    pattern = torch.baddbmm(attention.mask(queries.shape[1], keys), queries, keys.mT).softmax(dim=-1)
    return pattern.view(-1, batch, attention.heads, *pattern.shape[-2:]), values


def _weighted(attention: Attention | SomeHeads, pattern: Pattern, value: Heads) -> Float[Tensor, "model row inner"]:
    models, batch = pattern.shape[:2]
    weighted = (pattern.flatten(0, 2) @ value).view(models, batch, attention.heads, -1, attention.d_head)
    return weighted.transpose(2, 3).reshape(models, -1, attention.heads * attention.d_head)


def _cut(x: Projected, attention: Attention | SomeHeads) -> Heads:
    x = x.view(*x.shape[:2], attention.heads, attention.d_head)
    return x.transpose(1, 2).reshape(-1, x.shape[1], attention.d_head)


def _after(norm: nn.Module, x: Flat, weight: Weight, bias: Bias) -> Float[Tensor, "model row d_out"]:
    """Compute norm(x) @ weight + bias."""
    if not isinstance(norm, LayerNorm):
        return _affine(x, weight, bias)
    if not torch.compiler.is_compiling():
        return after_norm(x, norm.weight, norm.bias, weight, bias)
    # The compiler would turn layer_norm into a recursion along the row; it fuses these sums, which is faster.
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    centred = x - x.mean(dim=-1, keepdim=True)
    normalised = centred * torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + EPSILON)
    return _affine(normalised, norm.weight.mT * weight, torch.baddbmm(bias, norm.bias, weight))


def _affine(x: Flat, weight: Weight, bias: Bias) -> Float[Tensor, "model row d_out"]:
    """Compute x @ weight + bias."""
    if not torch.compiler.is_compiling():
        return products.affine(x, weight, bias)
    if x.is_cuda:
        return products.affine_on_gpu(x, weight, bias)
    made: Tensor = _AddBias.apply(torch.bmm(x, weight), bias)  # type: ignore[no-untyped-call]
    return made


def _gelu(x: Flat) -> Flat:
    """Compute GELU in its tanh form; when compiled, with one exponential instead of a hyperbolic tangent."""
    if not torch.compiler.is_compiling():
        return gelu(x)
    return x * torch.sigmoid(x * (_GELU_LINEAR + _GELU_CUBIC * x * x))


class _AddBias(torch.autograd.Function):
    """Compute x + bias. The bias's gradient is computed as a product with ones, since a sum over rows, compiled for a
    CPU, would miss every cache."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, bias: Tensor) -> Tensor:
        return x + bias.to(x.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        # Two rows of ones, since the compiler turns a product with one row back into a sum.
        ones = gradient.new_ones(gradient.shape[0], 2, gradient.shape[1])
        return gradient, torch.bmm(ones, gradient)[:, :1]
