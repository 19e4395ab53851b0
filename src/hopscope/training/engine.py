"""How steps are computed on this machine: device, threads, precision, compilation.

An engine never changes what is computed, only rounding; a run records its own and keeps it when it resumes, so that on
a CPU a resumed run gives the same bits.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import sysconfig
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch

from hopscope.errors import InputError
from hopscope.training.setup import Setup

Precision = Literal["fp32", "bf16"]

_ROWS_AT_ONCE = 16_384
"""Positions of all models that go through a CPU together: beyond it activations leave the caches and fill memory."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""glibc's names for what mallopt sets."""


@dataclass(frozen=True)
class Engine:
    """How steps are computed.

    Args:
        device: as torch names it.
        threads: CPU threads.
        precision: of matrix products; weights and optimiser stay in fp32. `fp32` is the reference.
        compiled: whether the step goes through `torch.compile`.
        models_at_once: how many models of an ensemble share one batched operation.
    """

    device: str = "cpu"
    threads: int = 1
    precision: Precision = "fp32"
    compiled: bool = False
    models_at_once: int = 1

    def describe(self) -> str:
        """In words, for people."""
        threads = f", {self.threads} threads" if self.device == "cpu" else ""
        return f"{self.device}{threads}, {self.precision}{', compiled' if self.compiled else ''}"


def choose_engine(
    setup: Setup,
    *,
    device: str | None = None,
    threads: int | None = None,
    precision: Precision | Literal["auto"] = "auto",
    compiled: bool | None = None,
) -> Engine:
    """The fastest engine this machine has for a run; what is given is kept.

    Args:
        setup: what is trained.
        device: `None` for a GPU if there is one.
        threads: `None` for all cores this process may use.
        precision: `auto` for bf16 where a race of two matrix products finds it faster.
        compiled: `None` to decide from the length of the run: compiling takes up to a minute.

    Raises:
        InputError: a device torch does not have.
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device {device!r} cannot be used here ({reason}); pass cpu, or leave it out") from None
    if threads is not None and threads < 1:
        raise InputError(f"threads must be at least 1, got {threads}")
    on_cpu = torch.device(device).type == "cpu"
    models, rows = len(setup.seeds), setup.recipe.batch_size * setup.problem.sequence_length
    engine = Engine(
        device=device,
        threads=threads or available_cores(),
        models_at_once=max(1, min(models, _ROWS_AT_ONCE // rows)) if on_cpu else models,
    )
    with using_threads(engine):
        if precision == "auto":
            precision = "bf16" if bf16_is_faster(device) else "fp32"
    if compiled is None:
        compiled = _worth_compiling(setup, on_cpu)
    return replace(engine, precision=precision, compiled=compiled)


def available_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class using_threads:
    """A context in which torch runs on the engine's threads, rounds denormal numbers to zero, and reuses memory."""

    def __init__(self, engine: Engine) -> None:
        self._threads = engine.threads

    def __enter__(self) -> None:
        self._before = torch.get_num_threads()
        torch.set_num_threads(self._threads)
        torch.set_flush_denormal(True)
        _keep_freed_memory()

    def __exit__(self, *exception: object) -> None:
        torch.set_num_threads(self._before)
        torch.set_flush_denormal(False)


def _keep_freed_memory() -> None:
    """Let this process keep the memory it frees, for the next step, where the C library is glibc.

    A step frees megabytes that the next one asks for again; given back to the system, they return page by page and
    zeroed, which took a fifth of a step's time.
    """
    if sys.platform == "linux" and hasattr(c_library := ctypes.CDLL(None), "mallopt"):
        c_library.mallopt(_M_MMAP_THRESHOLD, 32 << 20)
        c_library.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def bf16_is_faster(device: str) -> bool:
    """Whether a bf16 matrix product beats an fp32 one here by a third, in a race of some 50 ms.

    Without the instructions for it a CPU's bf16 is many times slower, so this is never assumed.
    """
    fp32 = _race(torch.float32, device)
    return _race(torch.bfloat16, device) * 1.33 < fp32


def _race(dtype: torch.dtype, device: str) -> float:
    """Best seconds of a matrix product the size of ours."""
    left = torch.randn(2048, 128, device=device).to(dtype)
    right = torch.randn(128, 512, device=device).to(dtype)
    best = float("inf")
    for _ in range(6):
        start = time.perf_counter()
        left @ right
        if left.is_cuda:
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def _worth_compiling(setup: Setup, on_cpu: bool) -> bool:
    """Whether what compiling saves over a run, a fifth to a third, is worth the minute that it takes."""
    if on_cpu and not _can_compile():
        return False
    shape, recipe = setup.recipe.architecture(setup.problem), setup.recipe
    per_layer = 4 * shape.d_model * shape.heads * shape.d_head + (8 * shape.d_model**2 if shape.mlp else 0)
    rows = len(setup.seeds) * recipe.batch_size * setup.problem.sequence_length
    operations = 6.0 * per_layer * shape.layers * rows * recipe.steps
    return operations > (5e13 if on_cpu else 1e15)


def _can_compile() -> bool:
    """Whether torch.compile finds what it needs for a CPU: Linux, a C++ compiler, Python's headers."""
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    return sys.platform == "linux" and headers.exists() and shutil.which(os.environ.get("CXX", "c++")) is not None
