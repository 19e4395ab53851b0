"""A whole block of a transformer in one pass, forward and backward: for training on a CPU.

Between torch's operations a block's activations travel to memory and back, and the elementwise operations take as long
as the products. `block.h` takes a few sequences at a time through the whole block, so that what is computed between its
products stays in a core's own cache. In bf16 it is for processors that multiply tiles of bf16 numbers (AMX) or pairs of
them (AVX512-BF16), in fp32 for all; where anything inside a block is asked for, `fast.py` computes it instead.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.model.edit import Stream
from hopscope.model.kernels.compiled import kernels
from hopscope.model.kernels.fused_attention import MOST, WIDEST
from hopscope.model.precision import DTYPES, Precision, bf16_unit

_PANEL = 64
"""Rows of a map that are prepared together."""

_AT_ONCE = {"fp32": 128 * 1024, "bf16": 128 * 1024, "tiles": 256 * 1024}
"""Bytes of the widest rows of the sequences that are computed together; with all that belongs to them they fill a
second-level cache, which is twice as large where there are tiles."""

_MOST_AT_ONCE = 16

_TILES = 32
"""Rows of two tiles side by side, and of one that sums over rows."""

_PRECISIONS = {dtype: precision for precision, dtype in DTYPES.items()}


ProductKind = Literal["fp32", "bf16", "tiles"]
"""How products are computed: of vectors, in fp32 or of pairs of bf16 numbers, or of tiles of bf16 numbers."""


class BlockParts(NamedTuple):
    """The sizes and weights of a block.

    Args:
        heads: number of heads.
        d_head: width of a head.
        causal: whether a position sees only itself and earlier ones, instead of all.
        maps: weight and bias of query, key, value and out, and, with an MLP, of up and down.
        norms: gain and offset of the norm before attention, and, with an MLP, of that before it; empty without norms.
    """

    heads: int
    d_head: int
    causal: bool
    maps: Sequence[tuple[Tensor, Tensor]]
    norms: Sequence[tuple[Tensor, Tensor]]


@cache
def available(precision: Precision) -> bool:
    """Whether this machine can run it, and, in bf16, whether this is its quickest way to multiply."""
    return (precision == "fp32" or bf16_unit("cpu") is not None) and _functions(_kind(precision)) is not None


def fits(precision: Precision, positions: int, d_model: int, d_head: int) -> bool:
    """Whether the kernel can take such sequences and widths."""
    even = d_head % 2 == 0 or precision == "fp32"
    return positions <= MOST and d_model % 16 == 0 and even and d_head <= WIDEST


def through(x: Stream, block: BlockParts, reads: int) -> Float[Tensor, "model batch query d_model"]:
    """The stream after the block at the last `reads` positions of every sequence, with its gradients.

    Args:
        x: the stream before the block, in bf16 or fp32, which is also the precision of the result and all in between.
        block: the block; its weights are in fp32.
        reads: number of last positions that are wanted; at most all.

    Raises:
        ValueError: the kernel cannot take these sizes or types.
    """
    weights, biases = zip(*block.maps, strict=True)
    kinds = (x.dtype, x.device.type, weights[0].dtype)
    if x.dtype not in _PRECISIONS or kinds[1:] != ("cpu", torch.float32):  # what follows is read by address
        raise ValueError(f"a stream in bf16 or fp32 on a CPU and weights in fp32, got {', '.join(map(str, kinds))}")
    positions, width = x.shape[2:]
    if not fits(_PRECISIONS[x.dtype], positions, width, block.d_head):
        raise ValueError(
            f"at most {MOST} positions, a d_head up to {WIDEST}, even in bf16, and a d_model of a multiple of "
            f"16, got {positions}, {block.d_head} and {width}"
        )
    norms = [one for pair in block.norms for one in pair]
    hidden = weights[4].shape[2] if len(weights) > 4 else 0
    sizes = _Sizes(positions, reads, block.heads, block.d_head, width, hidden, block.causal, bool(norms))
    out: Tensor = _Through.apply(x, sizes, *weights, *biases, *norms)  # type: ignore[no-untyped-call]
    return out


class _Sizes(NamedTuple):
    """The struct `Block` of block.h."""

    positions: int
    asking: int
    heads: int
    head_width: int
    width: int
    hidden: int
    causal: bool
    normed: bool


class _Sized(NamedTuple):
    """A block's sizes as the C functions take them, and what follows from them."""

    block: Any
    scale: float
    at_once: int
    """Sequences that are computed together."""
    words: int
    """32-bit words of one model's prepared maps."""
    sums: int
    """Numbers in all gradients of one model."""
    narrow: int
    """Numbers in a panel of rows of the widest map."""
    room: int
    """Bytes of scratch memory for all threads."""


def keeps_products(precision: Precision) -> bool:
    """Whether queries, keys, values and an MLP's hidden numbers are kept for the way back: by tiles they are made again
    sooner than they come from memory."""
    return _kind(precision) != "tiles"


@cache
def _kind(precision: Precision) -> ProductKind:
    """How this machine multiplies in a precision."""
    return "tiles" if precision == "bf16" and bf16_unit("cpu") == "amx_bf16" else precision


@cache
def _sized(kind: ProductKind, sizes: _Sizes, threads: int) -> _Sized:
    functions = _functions(kind)
    assert functions is not None
    block = (ctypes.c_int32 * len(sizes))(*sizes)
    inner = sizes.heads * sizes.head_width
    widest = max(sizes.hidden, 3 * inner, sizes.width)
    at_once = max(1, min(_MOST_AT_ONCE, _AT_ONCE[kind] // (2 * sizes.positions * widest)))
    even = _TILES // math.gcd(_TILES, sizes.positions)  # so many sequences fill whole tiles
    if kind == "tiles" and at_once >= even:
        at_once -= at_once % even
    return _Sized(
        block,
        1 / math.sqrt(sizes.head_width),
        at_once,
        functions.ready_words(block),
        functions.sums(block),
        _PANEL * widest,
        threads * functions.room(block, at_once),
    )


class _Through(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Stream, sizes: _Sizes, *parameters: Tensor) -> Stream:
        kind, threads = _kind(_PRECISIONS[x.dtype]), torch.get_num_threads()
        functions, sized = _functions(kind), _sized(kind, sizes, threads)
        assert functions is not None
        x, parameters = x.contiguous(), tuple(one.contiguous() for one in parameters)
        weights, biases, norms = _parts(parameters, sizes)
        models, batch = x.shape[:2]
        words = torch.empty(models, sized.words, dtype=torch.int32)
        narrow, room = x.new_empty(threads, sized.narrow), torch.empty(sized.room, dtype=torch.uint8)
        for model in range(models):
            functions.ready(
                sized.block, sized.scale, threads, _starts(weights, model), _starts(biases, model),
                _starts(norms, model), words[model].data_ptr(), narrow.data_ptr(), sized.narrow,
            )  # fmt: skip
        asked, inner = (models, batch, sizes.asking), sizes.heads * sizes.head_width
        kept_too = int(keeps_products(_PRECISIONS[x.dtype]))
        out, brought = x.new_empty(*asked, sizes.width), x.new_empty(*asked, inner)
        query = x.new_empty(*asked, kept_too * inner)
        made = x.new_empty(models, batch, sizes.positions, kept_too * 2 * inner)
        hidden = x.new_empty(*asked, kept_too * sizes.hidden)
        middle = x.new_empty(*asked, sizes.width) if sizes.hidden else out
        kept = _starts((x, query, made, brought, middle, hidden), 0)
        functions.forward(
            sized.block, 0, models * batch, threads, batch, sized.at_once, words.data_ptr(), kept, out.data_ptr(),
            room.data_ptr(),
        )  # fmt: skip
        ctx.save_for_backward(x, words, query, made, brought, hidden, *((middle,) if sizes.hidden else ()), *parameters)
        ctx.sizes, ctx.kept = sizes, kept
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Stream) -> tuple[Tensor | None, ...]:
        x, words = ctx.saved_tensors[:2]
        kind, threads, sizes = _kind(_PRECISIONS[x.dtype]), torch.get_num_threads(), ctx.sizes
        functions, sized = _functions(kind), _sized(kind, sizes, threads)
        assert functions is not None
        parameters, (models, batch) = ctx.saved_tensors[7 if sizes.hidden else 6 :], x.shape[:2]
        gradient, to_x = gradient.to(x.dtype).contiguous(), torch.empty_like(x)
        sums, room = torch.empty(threads, models, sized.sums), torch.empty(sized.room, dtype=torch.uint8)
        functions.backward(
            sized.block, 0, models * batch, threads, batch, sized.at_once, words.data_ptr(), ctx.kept,
            gradient.data_ptr(), to_x.data_ptr(), models, sums.data_ptr(), room.data_ptr(),
        )  # fmt: skip
        made = tuple(torch.empty_like(one) for one in parameters)
        (weights, _, norms), gradients = _parts(parameters, sizes), _parts(made, sizes)
        for model in range(models):
            functions.unfold(
                sized.block, sized.scale, threads, _starts(weights, model), _starts(norms, model),
                sums[0, model].data_ptr(), models * sized.sums, *(_starts(part, model) for part in gradients),
            )  # fmt: skip
        return to_x, None, *made


def _parts(parameters: tuple[Tensor, ...], sizes: _Sizes) -> tuple[tuple[Tensor, ...], ...]:
    """The weights, the biases, and the norms' gains and offsets."""
    maps = 6 if sizes.hidden else 4
    return parameters[:maps], parameters[maps : 2 * maps], parameters[2 * maps :]


def _starts(tensors: Sequence[Tensor], model: int) -> Any:
    """The addresses at which a model's part of each tensor begins."""
    return (ctypes.c_void_p * 6)(*(one.data_ptr() + 4 * model * one.stride(0) for one in tensors))


class _Functions(NamedTuple):
    """The functions of block.h, of one kind."""

    ready_words: Any
    sums: Any
    room: Any
    ready: Any
    forward: Any
    backward: Any
    unfold: Any


@cache
def _functions(kind: ProductKind) -> _Functions | None:
    """The compiled functions; None if they cannot be compiled or used."""
    room, number, count, scale = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_float
    shares, some = (number, number, count), (number, count)
    takes = _Functions(
        ready_words=(room,),
        sums=(room,),
        room=(room, count),
        ready=(room, scale, count, *[room] * 5, number),
        forward=(room, *shares, *some, *[room] * 4),
        backward=(room, *shares, *some, *[room] * 4, number, *[room] * 2),
        unfold=(room, scale, count, *[room] * 3, number, *[room] * 3),
    )
    library = kernels()
    if library is None or not hasattr(library, f"block_forward_{kind}"):
        return None
    if kind == "tiles" and not library.may_use_tiles():
        return None
    for name, arguments in takes._asdict().items():
        function = getattr(library, f"block_{name}_{kind}")
        function.argtypes, function.restype = arguments, number
    return _Functions(*(getattr(library, f"block_{name}_{kind}") for name in takes._fields))
