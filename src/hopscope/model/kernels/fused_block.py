"""A whole block of a transformer in one pass, forward and backward, in bf16: for training on a CPU.

Written with torch's operations, a block's activations travel to memory and back between any two of them, and what is
done to them there takes as long as the products. `block.c` takes a few sequences at a time through the whole block, so
that what lies between its products stays in a core's own cache. It is for processors that multiply pairs of bf16
(AVX512-BF16); elsewhere, and where somebody looks at what passes inside, blocks go the way of `fast.py`.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.model.edit import Stream
from hopscope.model.kernels.compiled import kernels
from hopscope.model.kernels.fused_attention import MOST, WIDEST
from hopscope.model.precision import bf16_unit

_PANEL = 64
"""Rows of a map that are made ready together."""

_AT_ONCE = 128 * 1024
"""Bytes of the widest rows of the sequences that go through together: with all that belongs to them, a second cache."""

_MOST_AT_ONCE = 16


class BlockParts(NamedTuple):
    """What goes through: its sizes and weights.

    Args:
        heads: that there are.
        d_head: numbers a head.
        causal: whether a position sees itself and those before it, or all.
        maps: weight and bias of query, key, value and out; and, with an MLP, of up and down.
        norms: gain and offset before attention; and, with an MLP, before it; empty without norms.
    """

    heads: int
    d_head: int
    causal: bool
    maps: Sequence[tuple[Tensor, Tensor]]
    norms: Sequence[tuple[Tensor, Tensor]]


@cache
def available() -> bool:
    """Whether this machine can run it, and multiplies bf16 quickest this way."""
    return bf16_unit("cpu") == "avx512_bf16" and _library() is not None


def fits(positions: int, d_model: int, d_head: int) -> bool:
    """Whether sequences and widths are those that it is made for."""
    return positions <= MOST and d_model % 16 == 0 and d_head % 2 == 0 and d_head <= WIDEST


def through(x: Stream, block: BlockParts, reads: int) -> Float[Tensor, "model batch query d_model"]:
    """The stream after the block at the last `reads` positions of every sequence, in bf16, with its gradients.

    Args:
        x: the stream before it, in bf16.
        block: which one.
        reads: positions that are wanted; at most all.

    Raises:
        ValueError: sizes or types that it is not made for.
    """
    positions, width = x.shape[2:]
    if not fits(positions, width, block.d_head):
        raise ValueError(
            f"at most {MOST} positions, an even d_head up to {WIDEST} and a d_model of a multiple of "
            f"16, got {positions}, {block.d_head} and {width}"
        )
    weights, biases = zip(*block.maps, strict=True)
    kinds = (x.dtype, x.device.type, weights[0].dtype)
    if kinds != (torch.bfloat16, "cpu", torch.float32):  # what follows is read by address
        raise ValueError(f"a stream in bf16 on a CPU and weights in fp32, got {', '.join(map(str, kinds))}")
    norms = [one for pair in block.norms for one in pair]
    hidden = weights[4].shape[2] if len(weights) > 4 else 0
    sizes = _Sizes(positions, reads, block.heads, block.d_head, width, hidden, block.causal, bool(norms))
    out: Tensor = _Through.apply(x, sizes, *weights, *biases, *norms)  # type: ignore[no-untyped-call]
    return out


class _Sizes(NamedTuple):
    """`Block` of block.c."""

    positions: int
    asking: int
    heads: int
    head_width: int
    width: int
    hidden: int
    causal: bool
    normed: bool


class _Sized(NamedTuple):
    """A block's sizes as the functions take them, and what follows from them."""

    block: Any
    scale: float
    at_once: int
    """Sequences that go through together."""
    words: int
    """Of maps made ready."""
    sums: int
    """Numbers of all gradients."""
    narrow: int
    """Numbers of a panel of rows of the widest map."""
    room: int
    """Bytes that all threads need in between."""


@cache
def _sized(sizes: _Sizes, threads: int) -> _Sized:
    library = _library()
    assert library is not None
    block = (ctypes.c_int32 * len(sizes))(*sizes)
    inner = sizes.heads * sizes.head_width
    widest = max(sizes.hidden, 3 * inner, sizes.width)
    at_once = max(1, min(_MOST_AT_ONCE, _AT_ONCE // (2 * sizes.positions * widest)))
    return _Sized(
        block,
        1 / math.sqrt(sizes.head_width),
        at_once,
        library.block_ready_words(block),
        library.block_sums(block),
        _PANEL * widest,
        threads * library.block_room(block, at_once),
    )


class _Through(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Stream, sizes: _Sizes, *parameters: Tensor) -> Stream:
        library, threads = _library(), torch.get_num_threads()
        assert library is not None
        sized, x, parameters = _sized(sizes, threads), x.contiguous(), tuple(one.contiguous() for one in parameters)
        weights, biases, norms = _parts(parameters, sizes)
        models, batch = x.shape[:2]
        words = torch.empty(models, sized.words, dtype=torch.int32)
        narrow, room = x.new_empty(threads, sized.narrow), torch.empty(sized.room, dtype=torch.uint8)
        for model in range(models):
            library.block_ready(
                sized.block, sized.scale, threads, _starts(weights, model), _starts(biases, model),
                _starts(norms, model), words[model].data_ptr(), narrow.data_ptr(), sized.narrow,
            )  # fmt: skip
        asked, inner = (models, batch, sizes.asking), sizes.heads * sizes.head_width
        out, query, brought = (x.new_empty(*asked, numbers) for numbers in (sizes.width, inner, inner))
        made = x.new_empty(models, batch, sizes.positions, 2 * inner)
        middle, hidden = (x.new_empty(*asked, sizes.width) if sizes.hidden else out), x.new_empty(*asked, sizes.hidden)
        kept = _starts((x, query, made, brought, middle, hidden), 0)
        library.block_forward(
            sized.block, 0, models * batch, threads, batch, sized.at_once, words.data_ptr(), kept, out.data_ptr(),
            room.data_ptr(),
        )  # fmt: skip
        ctx.save_for_backward(x, words, query, made, brought, hidden, *((middle,) if sizes.hidden else ()), *parameters)
        ctx.sizes, ctx.kept = sizes, kept
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Stream) -> tuple[Tensor | None, ...]:
        library, threads, sizes = _library(), torch.get_num_threads(), ctx.sizes
        assert library is not None
        x, words = ctx.saved_tensors[:2]
        parameters = ctx.saved_tensors[7 if sizes.hidden else 6 :]
        sized, (models, batch) = _sized(sizes, threads), x.shape[:2]
        gradient, to_x = gradient.to(x.dtype).contiguous(), torch.empty_like(x)
        sums, room = torch.empty(threads, models, sized.sums), torch.empty(sized.room, dtype=torch.uint8)
        library.block_backward(
            sized.block, 0, models * batch, threads, batch, sized.at_once, words.data_ptr(), ctx.kept,
            gradient.data_ptr(), to_x.data_ptr(), models, sums.data_ptr(), room.data_ptr(),
        )  # fmt: skip
        made = tuple(torch.empty_like(one) for one in parameters)
        (weights, _, norms), gradients = _parts(parameters, sizes), _parts(made, sizes)
        for model in range(models):
            library.block_unfold(
                sized.block, sized.scale, threads, _starts(weights, model), _starts(norms, model),
                sums[0, model].data_ptr(), models * sized.sums, *(_starts(part, model) for part in gradients),
            )  # fmt: skip
        return to_x, None, *made


def _parts(parameters: tuple[Tensor, ...], sizes: _Sizes) -> tuple[tuple[Tensor, ...], ...]:
    """Weights, biases, and gains and offsets."""
    maps = 6 if sizes.hidden else 4
    return parameters[:maps], parameters[maps : 2 * maps], parameters[2 * maps :]


def _starts(tensors: Sequence[Tensor], model: int) -> Any:
    """Where a model's part of each begins."""
    return (ctypes.c_void_p * 6)(*(one.data_ptr() + 4 * model * one.stride(0) for one in tensors))


@cache
def _library() -> ctypes.CDLL | None:
    """The compiled functions; None if they cannot be made."""
    room, number, count, scale = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_float
    shares, some = (number, number, count), (number, count)
    takes = {
        "block_ready_words": (room,),
        "block_sums": (room,),
        "block_room": (room, count),
        "block_ready": (room, scale, count, *[room] * 5, number),
        "block_forward": (room, *shares, *some, *[room] * 4),
        "block_backward": (room, *shares, *some, *[room] * 4, number, *[room] * 2),
        "block_unfold": (room, scale, count, *[room] * 3, number, *[room] * 3),
    }
    library = kernels()
    if library is None or not library.block_here():
        return None
    for name, arguments in takes.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, number
    return library
