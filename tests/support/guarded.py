"""Our kernels on tensors that end at a page which may not be touched: a process that dies if one is left at its end."""

from __future__ import annotations

import ctypes
import math
import mmap
import sys
from typing import Any, get_args

import torch
from torch import Tensor

from hopscope.kernels import fused_attention, fused_block
from hopscope.model.architecture import Architecture
from hopscope.model.fast import FastTransformer

PAGE = mmap.PAGESIZE
FORBIDDEN = 0
"""PROT_NONE of mprotect."""


def guarded(*sizes: int | torch.Size, dtype: torch.dtype = torch.float32) -> Tensor:
    """An empty tensor, full of bytes that are no numbers, whose last byte is the last before a forbidden page."""
    shape = torch.Size(sizes[0] if isinstance(sizes[0], torch.Size) else sizes)
    count = math.prod(shape) * dtype.itemsize
    pages = -(-count // PAGE)
    held = mmap.mmap(-1, (pages + 1) * PAGE)
    held.write(b"\xff" * pages * PAGE)
    last = ctypes.addressof(ctypes.c_char.from_buffer(held)) + pages * PAGE
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(last), PAGE, FORBIDDEN) == 0
    if not count:
        return torch.zeros(shape, dtype=dtype)
    return torch.frombuffer(held, dtype=dtype, count=math.prod(shape), offset=pages * PAGE - count).view(shape)


def guard_all() -> None:
    """Let the tensors that our code asks for be guarded."""

    def new_empty(self: Tensor, *sizes: Any, dtype: torch.dtype | None = None) -> Tensor:
        return guarded(*sizes, dtype=dtype or self.dtype)

    torch.empty, torch.Tensor.new_empty = guarded, new_empty
    torch.empty_like = lambda one: guarded(one.shape, dtype=one.dtype)


def filled(*sizes: int, dtype: torch.dtype) -> Tensor:
    return guarded(*sizes, dtype=dtype).copy_(torch.randn(sizes))


def through_blocks(dtype: torch.dtype, d_head: int, positions: int, reads: int, heads: int, mlp: bool) -> None:
    shape = Architecture(4, 4, reads, 1, heads, 16, head_dim=d_head, mlp=mlp)
    block = FastTransformer(shape, 1).blocks[0]
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.data = filled(*parameter.shape, dtype=torch.float32)
    x = filled(1, 3, positions, 16, dtype=dtype).requires_grad_()
    out = fused_block.through(x, [block.parts()], reads)
    out.backward(filled(1, 3, reads, 16, dtype=dtype))
    assert all(
        values.isfinite().all() for values in (out, x.grad, *(parameter.grad for parameter in block.parameters()))
    )


def through_attention(dtype: torch.dtype, d_head: int, positions: int, reads: int, heads: int) -> None:
    inner = heads * d_head
    made = filled(3, positions, 3 * inner, dtype=dtype).requires_grad_()
    fused_attention.attend(made, heads, True).backward(filled(3, positions, inner, dtype=dtype))
    query, rest = (filled(3, *size, dtype=dtype).requires_grad_() for size in ((reads, inner), (positions, 2 * inner)))
    fused_attention.attend_last(query, rest, heads, True).backward(filled(3, reads, inner, dtype=dtype))
    assert all(values.grad.isfinite().all() for values in (made, query, rest))


if __name__ == "__main__":
    sizes = [(d_head, *rest) for d_head in (2, 4, 6, 10, 16, 18, 64) for rest in ((1, 1, 1), (5, 3, 3), (28, 28, 1))]
    kinds = [kind for kind in get_args(fused_block.ProductKind) if fused_block._functions(kind) is not None]
    guard_all()
    for size in sizes:
        if sys.argv[1] == "attention":
            through_attention(torch.float32, *size)
            through_attention(torch.bfloat16, *size)
            continue
        for kind in kinds:
            fused_block._kind = lambda _, kind=kind: kind
            for mlp in (True, False):
                through_blocks(torch.float32 if kind == "fp32" else torch.bfloat16, *size, mlp=mlp)
