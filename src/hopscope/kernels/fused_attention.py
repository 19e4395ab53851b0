"""Attention over short sequences in one pass, by a few lines of C that are compiled for this machine.

For sequences of a few dozen positions and narrow heads, torch's softmax and its backward pass cost more than all
products of a model together. `attention.c` computes each head within a core's own caches. `attention_edited.c` does the
same if interventions replace some rows of a head. Without a compiler, torch computes attention.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from hopscope.kernels.compiled import kernels, shared_out

MOST = 80
"""The largest number of positions in a sequence."""

WIDEST = 128
"""The largest width of a head."""

_NUMBERS, _VECTOR = 4096, 16
"""Largest number of values in one head over all positions, padded to whole vectors; number of values in a vector."""

QUICK = (8, 16)
"""The head widths that this code is designed for, at which it is faster than torch's products and softmax."""

Made = Float[Tensor, "sequence pos made"]
Weighted = Float[Tensor, "sequence query inner"]


@dataclass(frozen=True)
class FixedRows:
    """Rows of patterns that are replaced by fixed rows; all other rows are the model's own.

    Attributes:
        candidates: number of candidates. The batch contains the same sequences once for each candidate in turn.
        rows: for each (candidate, head) with replaced rows, a mask that is 1 at the queries whose rows are replaced,
            and the new patterns.
    """

    candidates: int
    rows: Mapping[tuple[int, int], tuple[UInt8[Tensor, "batch query"], Float[Tensor, "batch query key"]]]


def fits(positions: int, d_head: int) -> bool:
    """Return whether sequences and heads are small enough for the kernels."""
    filled, pitch = -(-positions // _VECTOR) * _VECTOR, -(-d_head // 8) * 8
    return positions <= MOST and d_head <= WIDEST and filled * pitch <= _NUMBERS


def available() -> bool:
    """Return whether this machine has the compiled kernels, or can compile them."""
    return kernels() is not None


def attend(made: Made, heads: int, causal: bool) -> Weighted:
    """Softmax attention of all positions, with its gradient.

    Args:
        made: queries (already divided by sqrt(d_head)), keys and values, concatenated; each with its heads in order.
        heads: number of heads.
        causal: whether a position attends only to itself and earlier positions.

    Returns:
        The weighted values, with heads in order; in bf16 if `made` is in bf16, else in fp32.

    Raises:
        ValueError: there are more positions or wider heads than the kernel can take.
    """
    _check(made.shape[1], made.shape[2] // 3 // heads)
    weighted: Tensor = _Attend.apply(made, heads, causal)  # type: ignore[no-untyped-call]
    return weighted


def attend_last(query: Float[Tensor, "sequence query inner"], made: Made, heads: int, causal: bool) -> Weighted:
    """Softmax attention of the last positions alone, with its gradient; see `attend`.

    `query` has the queries of the last positions, and `made` has the concatenated keys and values of all positions.
    """
    _check(made.shape[1], query.shape[2] // heads)
    weighted: Tensor = _AttendLast.apply(query, made, heads, causal)  # type: ignore[no-untyped-call]
    return weighted


def attend_edited(
    made: Made, heads: int, causal: bool, fixed: FixedRows, query: Float[Tensor, "sequence query inner"] | None = None
) -> Weighted:
    """Softmax attention in which some rows of patterns are replaced; forward only, in fp32.

    Args:
        made: see `attend`, or `attend_last` if `query` is given. Sequences are ordered candidate after candidate.
        heads, causal: see `attend`.
        fixed: the rows that are replaced.
        query: queries of the last positions, see `attend_last`; None if `made` has the queries of all positions.
    """
    if query is None:
        query, made = _split(_plain(made))
    else:
        query, made = _plain(query), _plain(made)
    _check(made.shape[1], query.shape[2] // heads)
    rows = [fixed.rows.get((candidate, head)) for candidate in range(fixed.candidates) for head in range(heads)]
    where, patterns = (
        (ctypes.c_void_p * len(rows))(*(row and row[part].data_ptr() for row in rows)) for part in (0, 1)
    )
    weighted = query.new_empty(query.shape)
    batch = ctypes.c_int64(made.shape[0] // fixed.candidates)
    _call("attention_edited", heads, causal, query, made, weighted, more=(batch, where, patterns))
    return weighted


def _check(positions: int, d_head: int) -> None:
    if not fits(positions, d_head):
        raise ValueError(
            f"at most {MOST} positions, a d_head of {WIDEST} and {_NUMBERS} numbers, got {positions} and {d_head}"
        )


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, made: Made, heads: int, causal: bool) -> Weighted:
        made = _plain(made)
        ctx.save_for_backward(made)
        ctx.sizes = heads, causal
        query, rest = _split(made)
        return _forward(query, rest, *ctx.sizes)

    @staticmethod
    def backward(ctx: Any, gradient: Weighted) -> tuple[Made, None, None]:
        (made,) = ctx.saved_tensors
        made_gradient = torch.empty_like(made)
        _backward(*_split(made), gradient, *_split(made_gradient), *ctx.sizes)
        return made_gradient, None, None


class _AttendLast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Weighted, made: Made, heads: int, causal: bool) -> Weighted:
        query, made = _plain(query), _plain(made)
        ctx.save_for_backward(query, made)
        ctx.sizes = heads, causal
        return _forward(query, made, *ctx.sizes)

    @staticmethod
    def backward(ctx: Any, gradient: Weighted) -> tuple[Weighted, Made, None, None]:
        query, made = ctx.saved_tensors
        query_gradient, made_gradient = torch.empty_like(query), torch.empty_like(made)
        _backward(query, made, gradient, query_gradient, made_gradient, *ctx.sizes)
        return query_gradient, made_gradient, None, None


def _plain(made: Made) -> Made:
    """Return the tensor as the kernels read it: contiguous, in bf16 or fp32."""
    return (made if made.dtype == torch.bfloat16 else made.float()).contiguous()


def _split(made: Made) -> tuple[Tensor, Tensor]:
    """Return a view of the queries, and a view of the keys and values."""
    inner = made.shape[2] // 3
    return made[..., :inner], made[..., inner:]


def _forward(query: Tensor, made: Tensor, heads: int, causal: bool) -> Weighted:
    weighted = query.new_empty(query.shape)
    _call("attention_forward", heads, causal, query, made, weighted)
    return weighted


def _backward(
    query: Tensor, made: Tensor, gradient: Weighted, query_gradient: Tensor, made_gradient: Tensor, heads: int,
    causal: bool,
) -> None:  # fmt: skip
    gradient = gradient.to(query.dtype).contiguous()
    _call("attention_backward", heads, causal, query, made, gradient, query_gradient, made_gradient)


def _call(
    name: str, heads: int, causal: bool, query: Tensor, made: Tensor, *others: Tensor, more: tuple[Any, ...] = ()
) -> None:
    """Run one of the kernels, with the sequences divided among threads."""
    asking, inner = query.shape[1:]
    strides = query.stride(1), made.stride(1)
    sizes = made.shape[1], asking, heads, inner // heads, *strides, int(causal), int(made.dtype == torch.bfloat16)
    tensors = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (query, made, *others)]
    shared_out(name, made.shape[0], *sizes, *tensors, *more)
