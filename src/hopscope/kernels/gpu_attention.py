"""Attention over short sequences in one pass on a GPU, as Triton kernels.

This is `fused_attention.py` for a GPU: each program computes one head on one sequence and keeps queries, keys, values
and pattern in registers. Kernels for long sequences and wide heads take several times as long at these sizes.
Import this only where Triton is installed; torch includes it for GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from hopscope.kernels.fused_attention import Made, Weighted

_LEAST = 16
"""The smallest size of a tile."""

_WARPS = {"forward": 1, "backward": 4}
"""Number of warps (32 threads each) per head and sequence. Of 1, 2 and 4 warps, these were the fastest on an H200, for
sequences of 28 and 44 positions with heads of width 16."""


def attend(made: Made, heads: int, causal: bool) -> Weighted:
    """Softmax attention of all positions, with its gradient; see `fused_attention.attend`."""
    weighted: Tensor = torch.ops.hopscope.attend(made, heads, causal)
    return weighted


def attend_last(query: Weighted, made: Made, heads: int, causal: bool) -> Weighted:
    """Softmax attention of the last positions alone, with its gradient; see `fused_attention.attend_last`."""
    weighted: Tensor = torch.ops.hopscope.attend_last(query, made, heads, causal)
    return weighted


@triton.jit
def _tile(start, sequence, head, rows, row_size, D: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr):
    """Return the addresses of a head's rows on a sequence, and which elements of the tile exist."""
    row, column = tl.arange(0, BR)[:, None], tl.arange(0, BD)[None, :]
    return start + (sequence * rows + row) * row_size + head * D + column, (row < rows) & (column < D)


@triton.jit
def _read(start, sequence, head, rows, row_size, D: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr):
    """Read a head's rows on a sequence, with zeros beyond the rows."""
    at, there = _tile(start, sequence, head, rows, row_size, D, BR, BD)
    return tl.load(at, there, other=0.0)


@triton.jit
def _write(made, start, sequence, head, rows, row_size, D: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr):
    at, there = _tile(start, sequence, head, rows, row_size, D, BR, BD)
    tl.store(at, made.to(start.dtype.element_ty), there)


@triton.jit
def _pattern(q, k, queries, positions, CAUSAL: tl.constexpr, BQ: tl.constexpr, BT: tl.constexpr):
    """Return the softmax of every query's scores. Rows beyond the last query are arbitrary but finite."""
    scores = tl.dot(q, tl.trans(k), input_precision="ieee")
    query, key = tl.arange(0, BQ)[:, None], tl.arange(0, BT)[None, :]
    seen = key < positions
    if CAUSAL:
        seen = seen & (key <= query + (positions - queries))
    scores = tl.where(seen, scores, -float("inf"))
    exponentials = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    return exponentials / tl.sum(exponentials, axis=1)[:, None]


@triton.jit
def _forward(
    query, key, value, weighted, queries, positions, heads, query_row, key_row, weighted_row, D: tl.constexpr,
    CAUSAL: tl.constexpr, BQ: tl.constexpr, BT: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    sequence, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    q = _read(query, sequence, head, queries, query_row, D, BQ, BD)
    k = _read(key, sequence, head, positions, key_row, D, BT, BD)
    v = _read(value, sequence, head, positions, key_row, D, BT, BD)
    pattern = _pattern(q, k, queries, positions, CAUSAL, BQ, BT)
    made = tl.dot(pattern.to(v.dtype), v, input_precision="ieee")
    _write(made, weighted, sequence, head, queries, weighted_row, D, BQ, BD)


@triton.jit
def _backward(
    query, key, value, gradient, to_query, to_key, to_value, queries, positions, heads, query_row, key_row,
    gradient_row, to_query_row, to_key_row, D: tl.constexpr, CAUSAL: tl.constexpr, BQ: tl.constexpr,
    BT: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    sequence, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    q = _read(query, sequence, head, queries, query_row, D, BQ, BD)
    k = _read(key, sequence, head, positions, key_row, D, BT, BD)
    v = _read(value, sequence, head, positions, key_row, D, BT, BD)
    g = _read(gradient, sequence, head, queries, gradient_row, D, BQ, BD)
    pattern = _pattern(q, k, queries, positions, CAUSAL, BQ, BT)
    to_v = tl.dot(tl.trans(pattern).to(v.dtype), g, input_precision="ieee")
    to_pattern = tl.dot(g, tl.trans(v), input_precision="ieee")
    to_scores = (pattern * (to_pattern - tl.sum(pattern * to_pattern, axis=1)[:, None])).to(v.dtype)
    to_q = tl.dot(to_scores, k, input_precision="ieee")
    to_k = tl.dot(tl.trans(to_scores), q, input_precision="ieee")
    _write(to_q, to_query, sequence, head, queries, to_query_row, D, BQ, BD)
    _write(to_k, to_key, sequence, head, positions, to_key_row, D, BT, BD)
    _write(to_v, to_value, sequence, head, positions, to_key_row, D, BT, BD)


def _run(kernel: Any, name: str, heads: int, causal: bool, read: Sequence[Tensor], written: Sequence[Tensor]) -> None:
    """Run the `forward` or `backward` kernel, with a program for each head on each sequence.

    Forward reads queries, keys and values and writes the output. Backward also reads the output's gradient and writes
    the gradients of queries, keys and values.
    """
    query, key = read[:2]
    sizes = {"BQ": query.shape[1], "BT": key.shape[1], "BD": query.shape[2] // heads}
    tiles = {name: max(_LEAST, triton.next_power_of_2(size)) for name, size in sizes.items()}
    rows = [tensor.stride(1) for tensor in (query, key, *read[3:], *written[:2])]  # values have the strides of keys
    kernel[(query.shape[0] * heads,)](
        *read, *written, query.shape[1], key.shape[1], heads, *rows, D=sizes["BD"], CAUSAL=causal, **tiles,
        num_warps=_WARPS[name],
    )  # fmt: skip


def _weighted(heads: int, causal: bool, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    weighted = query.new_empty(query.shape)
    _run(_forward, "forward", heads, causal, (query, key, value), (weighted,))
    return weighted


def _attend(made: Tensor, heads: int, causal: bool) -> Tensor:
    return _weighted(heads, causal, *made.contiguous().chunk(3, dim=2))


def _attend_backward(made: Tensor, gradient: Tensor, heads: int, causal: bool) -> Tensor:
    made = made.contiguous()
    to_made = torch.empty_like(made)
    read = *made.chunk(3, dim=2), gradient.contiguous()
    _run(_backward, "backward", heads, causal, read, to_made.chunk(3, dim=2))
    return to_made


def _attend_last(query: Tensor, made: Tensor, heads: int, causal: bool) -> Tensor:
    return _weighted(heads, causal, query.contiguous(), *made.contiguous().chunk(2, dim=2))


def _attend_last_backward(
    query: Tensor, made: Tensor, gradient: Tensor, heads: int, causal: bool
) -> tuple[Tensor, Tensor]:
    query, made = query.contiguous(), made.contiguous()
    to_query, to_made = torch.empty_like(query), torch.empty_like(made)
    read = query, *made.chunk(2, dim=2), gradient.contiguous()
    _run(_backward, "backward", heads, causal, read, (to_query, *to_made.chunk(2, dim=2)))
    return to_query, to_made


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, heads, causal = inputs
    ctx.save_for_backward(*tensors)
    ctx.how = heads, causal


def _attend_gradient(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
    return torch.ops.hopscope.attend_backward(*ctx.saved_tensors, gradient, *ctx.how), None, None


def _attend_last_gradient(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
    to_query, to_made = torch.ops.hopscope.attend_last_backward(*ctx.saved_tensors, gradient, *ctx.how)
    return to_query, to_made, None, None


def _register() -> None:
    """Register the four operations with torch, so that its compiler treats each as a whole."""
    how, make = "int heads, bool causal", torch.library.custom_op

    whole = make("hopscope::attend", _attend, mutates_args=(), schema=f"(Tensor made, {how}) -> Tensor")
    whole.register_fake(lambda made, heads, causal: made.new_empty(*made.shape[:2], made.shape[2] // 3))
    whole.register_autograd(_attend_gradient, setup_context=_save)
    back = make(
        "hopscope::attend_backward", _attend_backward, mutates_args=(),
        schema=f"(Tensor made, Tensor gradient, {how}) -> Tensor",
    )  # fmt: skip
    back.register_fake(lambda made, gradient, heads, causal: made.new_empty(made.shape))

    last = make(
        "hopscope::attend_last", _attend_last, mutates_args=(), schema=f"(Tensor query, Tensor made, {how}) -> Tensor"
    )
    last.register_fake(lambda query, made, heads, causal: query.new_empty(query.shape))
    last.register_autograd(_attend_last_gradient, setup_context=_save)
    back = make(
        "hopscope::attend_last_backward", _attend_last_backward, mutates_args=(),
        schema=f"(Tensor query, Tensor made, Tensor gradient, {how}) -> (Tensor, Tensor)",
    )  # fmt: skip
    back.register_fake(
        lambda query, made, gradient, heads, causal: (query.new_empty(query.shape), made.new_empty(made.shape))
    )


_register()
