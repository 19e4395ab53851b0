"""GELU in its tanh form, as in GPT-2; for whoever only runs a model, in half of torch's time.

torch takes a hyperbolic tangent to the last digit, which costs as much as half the products around it.
"""

from __future__ import annotations

import ctypes
from functools import cache

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from hopscope.model.compiled import compiled, in_shares

_SMALL = 2**14
"""Numbers below which torch is as quick."""


def gelu(x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """x times the normal distribution function of x, nearly."""
    library = _library() if _may(x) else None
    if library is None:
        return F.gelu(x, approximate="tanh")
    out = torch.empty_like(x)
    starts = ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(out.data_ptr())

    def run(first: int, end: int, threads: int) -> None:
        library.gelu_forward(ctypes.c_int64(first), ctypes.c_int64(end), threads, *starts)

    in_shares(library, x.numel(), run)
    return out


def _may(x: Tensor) -> bool:
    """Whether it can go through our own: fp32 on a CPU, without a gradient, and enough of it."""
    plain = x.dtype == torch.float32 and x.device.type == "cpu" and x.is_contiguous()
    return plain and x.numel() >= _SMALL and not (torch.is_grad_enabled() and x.requires_grad)


@cache
def _library() -> ctypes.CDLL | None:
    """The compiled function; None if it cannot be made."""
    return compiled("gelu", ["gelu_forward", "threads_here"])
