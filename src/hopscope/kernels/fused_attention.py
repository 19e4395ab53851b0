"""Attention over short sequences in one pass, through a few lines of C that are compiled for the machine at hand.

For sequences of a few dozen positions and narrow heads, torch's softmax and its backward pass cost more than all
products of a model together. `attention.c` computes heads within a core's own caches, and `attention_edited.c` those of
which interventions replace rows. Where there is no compiler, torch computes attention.
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
"""The most positions of a sequence."""

WIDEST = 128
"""The largest width of a head."""

_NUMBERS, _VECTOR = 4096, 16
"""The most numbers of a head over all positions, padded to whole vectors; the numbers in a vector."""

QUICK = (8, 16)
"""Widths of heads at which this is quicker than torch's products and softmax: those it is designed for."""

Made = Float[Tensor, "sequence pos made"]
Weighted = Float[Tensor, "sequence query inner"]


@dataclass(frozen=True)
class FixedRows:
    """Rows of patterns that an edit replaces whatever the model does; all others are the model's own.

    Attributes:
        candidates: number of candidates; the batch holds the same sequences once for each, candidate after candidate.
        rows: by (candidate, head), bytes that are 1 at the queries whose rows are replaced, and their
            new patterns; heads with no such row are left out.
    """

    candidates: int
    rows: Mapping[tuple[int, int], tuple[UInt8[Tensor, "batch query"], Float[Tensor, "batch query key"]]]


def fits(positions: int, d_head: int) -> bool:
    """Whether sequences and heads are small enough."""
    filled, pitch = -(-positions // _VECTOR) * _VECTOR, -(-d_head // 8) * 8
    return positions <= MOST and d_head <= WIDEST and filled * pitch <= _NUMBERS


def available() -> bool:
    """Whether this machine can run it: it has a C compiler, or has had one."""
    return kernels() is not None


def attend(made: Made, heads: int, causal: bool) -> Weighted:
    """Softmax attention of all positions, with its gradient.

    Args:
        made: queries, keys and values side by side, each head after head; queries already divided by sqrt(d_head).
        heads: number of heads.
        causal: whether a position sees only itself and earlier ones, instead of all.

    Returns:
        The weighted values, head after head, in bf16 where `made` is, else in fp32.

    Raises:
        ValueError: there are more positions or wider heads than the kernel can take.
    """
    _check(made.shape[1], made.shape[2] // 3 // heads)
    weighted: Tensor = _Attend.apply(made, heads, causal)  # type: ignore[no-untyped-call]
    return weighted


def attend_last(query: Float[Tensor, "sequence query inner"], made: Made, heads: int, causal: bool) -> Weighted:
    """Softmax attention of the last positions alone, with its gradient; see `attend`.

    Their queries are given apart; `made` holds keys and values of all positions side by side.
    """
    _check(made.shape[1], query.shape[2] // heads)
    weighted: Tensor = _AttendLast.apply(query, made, heads, causal)  # type: ignore[no-untyped-call]
    return weighted


def attend_edited(
    made: Made, heads: int, causal: bool, fixed: FixedRows, query: Float[Tensor, "sequence query inner"] | None = None
) -> Weighted:
    """Softmax attention in which an edit replaces rows of patterns; forward only, in fp32.

    Args:
        made: see `attend`, or `attend_last` where `query` is given; sequences come candidate after candidate.
        heads, causal: see `attend`.
        fixed: the rows that are replaced.
        query: queries of the last positions, see `attend_last`; None for those of all positions, in `made`.
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
            f"at most {MOST} positions, {WIDEST} numbers a head and {_NUMBERS} of all, got {positions} and {d_head}"
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
    """The tensor as the kernels read it: contiguous, in bf16 or fp32."""
    return (made if made.dtype == torch.bfloat16 else made.float()).contiguous()


def _split(made: Made) -> tuple[Tensor, Tensor]:
    """Views of the queries, and of the keys and values."""
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
    """Run one of the kernels, with a share of the sequences on each of torch's threads."""
    asking, inner = query.shape[1:]
    strides = query.stride(1), made.stride(1)
    sizes = made.shape[1], asking, heads, inner // heads, *strides, int(causal), int(made.dtype == torch.bfloat16)
    tensors = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (query, made, *others)]
    shared_out(name, made.shape[0], *sizes, *tensors, *more)
