"""Whole blocks of a transformer, each computed in one pass, forward and backward, for training on a CPU.

Between torch's operations, a block's activations travel to memory and back, and elementwise operations take as long as
the products. `block.h` takes a few sequences at a time through the whole block, so that results between products stay
in a core's own cache. The bf16 form needs a processor that multiplies tiles of bf16 numbers (AMX) or pairs of them
(AVX512-BF16); the fp32 form needs neither. If hooks need anything inside a block, `fast.py` computes the block.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.kernels.compiled import kernels
from hopscope.kernels.fused_attention import MOST, WIDEST
from hopscope.kernels.precision import DTYPES, Precision, bf16_unit

_PANEL = 64
"""Number of rows of a linear map that are prepared together."""

_AT_ONCE = {"fp32": 128 * 1024, "bf16": 128 * 1024, "tiles": 256 * 1024}
"""Size in bytes of the widest activations of the sequences that are computed together. With the sequences' other data,
these activations fill a second-level cache, which is twice as large on processors with tiles."""

_MOST_AT_ONCE = 16

_TILES = 32
"""Number of rows that two adjacent tiles hold, and that one tile holds if a product sums over rows."""

_PRECISIONS = {dtype: precision for precision, dtype in DTYPES.items()}


Entering = Float[Tensor, "model batch pos d_model"]
Leaving = Float[Tensor, "model batch query d_model"]

ProductKind = Literal["fp32", "bf16", "tiles"]
"""How products are computed: with vectors of fp32 numbers or of pairs of bf16 numbers, or with tiles of bf16."""


class BlockParts(NamedTuple):
    """The sizes and weights of a block.

    Args:
        heads: number of heads.
        d_head: width of a head.
        causal: whether a position attends only to itself and earlier positions.
        maps: weights and biases of query, key, value and out, then of up and down if the block has an MLP.
        norms: gain and offset of the norm before attention, then of the norm before an MLP; empty without norms.
    """

    heads: int
    d_head: int
    causal: bool
    maps: Sequence[tuple[Tensor, Tensor]]
    norms: Sequence[tuple[Tensor, Tensor]]


@cache
def available(precision: Precision) -> bool:
    """Return whether this machine can run the kernel in a precision and, for bf16, is faster in bf16 than in fp32."""
    return (precision == "fp32" or bf16_unit("cpu") is not None) and _functions(_kind(precision)) is not None


def fits(precision: Precision, positions: int, d_model: int, d_head: int) -> bool:
    """Return whether the kernel supports sequences and widths of these sizes."""
    even = d_head % 2 == 0 or precision == "fp32"
    return positions <= MOST and d_model % 16 == 0 and even and d_head <= WIDEST


def through(x: Entering, blocks: Sequence[BlockParts], reads: int | None = None) -> Leaving:
    """Return the stream after these blocks at the last `reads` positions of every sequence, with gradients.

    Args:
        x: the stream before the blocks, in bf16 or fp32. The result and everything in between have the same precision.
        blocks: the blocks in their order, with weights in fp32.
        reads: number of last positions to return; None for all.

    Raises:
        ValueError: the kernel does not support these sizes or types.
    """
    positions = x.shape[2]
    asking = [positions] * (len(blocks) - 1) + [positions if reads is None else reads]
    ready = [(_sizes(x, block, last), _parameters(block)) for block, last in zip(blocks, asking, strict=True)]
    # Without gradients, blocks are computed in separate calls, so that no block's numbers are kept.
    for group in [ready] if torch.is_grad_enabled() else [[block] for block in ready]:
        sizes, parameters = zip(*group, strict=True)
        x = _Through.apply(x, sizes, *chain.from_iterable(parameters))  # type: ignore[no-untyped-call]
    return x


class _Sizes(NamedTuple):
    """The struct `Block` of maps.h."""

    positions: int
    asking: int
    heads: int
    head_width: int
    width: int
    hidden: int
    causal: bool
    normed: bool


def _sizes(x: Entering, block: BlockParts, asking: int) -> _Sizes:
    """Return the sizes of a block on the stream `x`. Raises a ValueError if the kernel does not support them."""
    weights = [weight for weight, _ in block.maps]
    kinds = (x.dtype, x.device.type, weights[0].dtype)
    if x.dtype not in _PRECISIONS or kinds[1:] != ("cpu", torch.float32):  # kernels read memory by address
        raise ValueError(f"a stream in bf16 or fp32 on a CPU and weights in fp32, got {', '.join(map(str, kinds))}")
    positions, width = x.shape[2:]
    if not fits(_PRECISIONS[x.dtype], positions, width, block.d_head):
        raise ValueError(
            f"blocks must have at most {MOST} positions, a d_head up to {WIDEST} (even for bf16) and a d_model "
            f"divisible by 16, got {positions}, {block.d_head} and {width}"
        )
    hidden = weights[4].shape[2] if len(weights) > 4 else 0
    return _Sizes(positions, asking, block.heads, block.d_head, width, hidden, block.causal, bool(block.norms))


def _parameters(block: BlockParts) -> list[Tensor]:
    """Return a block's weights, then its biases, then its norms' gains and offsets."""
    return [*(weight for weight, _ in block.maps), *(bias for _, bias in block.maps), *chain(*block.norms)]


class _Sized(NamedTuple):
    """A block's sizes in the form that C functions take, and numbers derived from the sizes."""

    block: Any
    scale: float
    at_once: int
    """Number of sequences that are computed together."""
    words: int
    """Size of one model's prepared maps in 32-bit words."""
    sums: int
    """Number of values in all gradients of one model."""
    narrow: int
    """Number of values in a panel of rows of the widest map."""
    room: int
    """Bytes of scratch memory for all threads."""


@cache
def _kind(precision: Precision) -> ProductKind:
    """Return how this machine computes products in a precision."""
    return "tiles" if precision == "bf16" and bf16_unit("cpu") == "amx_bf16" else precision


@cache
def _sized(kind: ProductKind, sizes: _Sizes, threads: int) -> _Sized:
    functions = _functions(kind)
    assert functions is not None
    block = (ctypes.c_int32 * len(sizes))(*sizes)
    inner = sizes.heads * sizes.head_width
    widest = max(sizes.hidden, 3 * inner, sizes.width)
    at_once = max(1, min(_MOST_AT_ONCE, _AT_ONCE[kind] // (2 * sizes.positions * widest)))
    even = _TILES // math.gcd(_TILES, sizes.positions)  # number of sequences that fill whole tiles
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


class _Passed(NamedTuple):
    """The data that a block keeps from its forward pass."""

    tensors: tuple[Tensor, ...]
    """All tensors of the data, held so that their addresses stay valid."""
    words: int
    """The address of the block's prepared maps."""
    kept: Any
    """The addresses of the fields of `Kept` in block.h."""


class _Through(torch.autograd.Function):
    """All arguments are prepared before the first compiled function is called: these functions fill the caches with
    their own numbers, so Python code between two calls would be slow."""

    @staticmethod
    def forward(ctx: Any, x: Entering, blocks: tuple[_Sizes, ...], *parameters: Tensor) -> Entering:
        kind, threads = _kind(_PRECISIONS[x.dtype]), torch.get_num_threads()
        functions, all_sized = _functions(kind), [_sized(kind, sizes, threads) for sizes in blocks]
        assert functions is not None
        x, parameters = x.contiguous(), tuple(parameter.contiguous() for parameter in parameters)
        (models, batch), kept_too = x.shape[:2], int(kind != "tiles")  # tiles compute products again faster
        size = max(sized.narrow for sized in all_sized)
        narrow = x.new_empty(threads, size)
        room = torch.empty(max(sized.room for sized in all_sized), dtype=torch.uint8)
        out, passed, calls = x, list[_Passed](), list[tuple[Any, ...]]()
        for sizes, sized, own in zip(blocks, all_sized, _by_block(parameters, blocks), strict=True):
            weights, biases, norms = own
            words = torch.empty(models, sized.words, dtype=torch.int32)
            for model in range(models):
                calls.append((
                    functions.ready, sized.block, sized.scale, threads, _starts(weights, model), _starts(biases, model),
                    _starts(norms, model), words[model].data_ptr(), narrow.data_ptr(), size,
                ))  # fmt: skip
            asked, inner, before = (models, batch, sizes.asking), sizes.heads * sizes.head_width, out
            query = x.new_empty(*asked, kept_too * inner)
            made = x.new_empty(models, batch, sizes.positions, kept_too * 2 * inner)
            out, weighted = x.new_empty(*asked, sizes.width), x.new_empty(*asked, inner)
            middle = x.new_empty(*asked, sizes.width) if sizes.hidden else out
            hidden = x.new_empty(*asked, kept_too * sizes.hidden)
            kept = _starts((before, query, made, weighted, middle, hidden), 0)
            calls.append((
                functions.forward, sized.block, 0, models * batch, threads, batch, sized.at_once, words.data_ptr(),
                kept, out.data_ptr(), room.data_ptr(),
            ))  # fmt: skip
            held = (words, before, query, made, weighted, hidden, *((middle,) if sizes.hidden else ()))
            passed.append(_Passed(held, words.data_ptr(), kept))
        for function, *arguments in calls:
            function(*arguments)
        ctx.save_for_backward(x, *parameters)
        ctx.blocks, ctx.passed = blocks, passed
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Entering) -> tuple[Tensor | None, ...]:
        x, *parameters = ctx.saved_tensors
        kind, threads, blocks = _kind(_PRECISIONS[x.dtype]), torch.get_num_threads(), ctx.blocks
        functions, all_sized = _functions(kind), [_sized(kind, sizes, threads) for sizes in blocks]
        assert functions is not None
        models, batch = x.shape[:2]
        gradient, made = gradient.to(x.dtype).contiguous(), tuple(map(torch.empty_like, parameters))
        sums = torch.empty(threads * models * max(sized.sums for sized in all_sized))
        room = torch.empty(max(sized.room for sized in all_sized), dtype=torch.uint8)
        turns = (
            torch.empty_like(x),
            torch.empty_like(x),
        )  # gradients before a block and before the next; in the end turns[0] is before the first
        own, theirs = _by_block(parameters, blocks), _by_block(made, blocks)
        after, calls = gradient.data_ptr(), list[tuple[Any, ...]]()
        for number in reversed(range(len(blocks))):
            sized, before = all_sized[number], turns[number % 2].data_ptr()
            passed: _Passed = ctx.passed[number]
            calls.append((
                functions.backward, sized.block, 0, models * batch, threads, batch, sized.at_once, passed.words,
                passed.kept, after, before, models, sums.data_ptr(), room.data_ptr(),
            ))  # fmt: skip
            (weights, _, norms), gradients = own[number], theirs[number]
            for model in range(models):
                calls.append((
                    functions.unfold, sized.block, sized.scale, threads, _starts(weights, model),
                    _starts(norms, model), sums.data_ptr() + 4 * model * sized.sums, models * sized.sums,
                    *(_starts(part, model) for part in gradients),
                ))  # fmt: skip
            after = before
        for function, *arguments in calls:
            function(*arguments)
        return turns[0], None, *made


def _by_block(parameters: Sequence[Tensor], blocks: Sequence[_Sizes]) -> list[tuple[Sequence[Tensor], ...]]:
    """Return each block's weights, its biases, and its norms' gains and offsets, see `_parameters`."""
    parts, first = list[tuple[Sequence[Tensor], ...]](), 0
    for sizes in blocks:
        maps, norms = (6, 4) if sizes.hidden else (4, 2)
        ends = first + maps, first + 2 * maps, first + 2 * maps + (norms if sizes.normed else 0)
        parts.append((parameters[first : ends[0]], parameters[ends[0] : ends[1]], parameters[ends[1] : ends[2]]))
        first = ends[2]
    return parts


def _starts(tensors: Sequence[Tensor], model: int) -> Any:
    """Return the addresses at which a model's part of each tensor begins."""
    return (ctypes.c_void_p * 6)(*(tensor.data_ptr() + 4 * model * tensor.stride(0) for tensor in tensors))


class _Functions(NamedTuple):
    """The functions of block.h and maps.h for one kind of product."""

    ready_words: Any
    sums: Any
    room: Any
    ready: Any
    forward: Any
    backward: Any
    unfold: Any


@cache
def _functions(kind: ProductKind) -> _Functions | None:
    """Load the compiled functions. Returns None if they cannot be compiled or used."""
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
