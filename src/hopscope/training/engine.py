"""How steps are computed on this machine: device, threads, precision, compilation.

An engine never changes what is computed, only rounding; a run records its own and keeps it when it resumes, so that on
a CPU a resumed run gives the same bits. On a machine that lacks it, another is chosen in the same precision.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from hopscope.checks import check_count, make_plain
from hopscope.errors import InputError, in_a_line
from hopscope.kernels import attention as attention_kernels
from hopscope.kernels import fused_attention, fused_block, products
from hopscope.kernels.precision import Precision, best_precision
from hopscope.training.setup import Setup
from hopscope.words import counted

_ROWS_AT_ONCE = 16_384
"""Positions, over all models, that a CPU computes together: with more, activations leave the caches and fill memory."""


@dataclass(frozen=True)
class Engine:
    """How steps are computed.

    Args:
        device: the device's name in torch.
        threads: number of CPU threads.
        precision: `fp32` is the reference. In `bf16`, matrix products and activations, the residual stream and its sums
            included, are in bf16; weights, their gradients, the optimiser and the losses stay in fp32.
        compiled: whether blocks go through `torch.compile`.
        models_at_once: how many models of an ensemble share one batched operation.
        fused: whether attention goes through `hopscope.kernels.attention`.
        fused_blocks: whether blocks go through `hopscope.kernels.fused_block`.
        graphed: whether an update is one CUDA graph, see `hopscope.training.graphed`.

    Raises:
        InputError: a field has an invalid value.
    """

    device: str = "cpu"
    threads: int = 1
    precision: Precision = "fp32"
    compiled: bool = False
    models_at_once: int = 1
    fused: bool = False
    fused_blocks: bool = False
    graphed: bool = False

    def __post_init__(self) -> None:
        make_plain(self)
        object.__setattr__(self, "device", _one_cpu(self.device))
        for name in ("threads", "models_at_once"):
            check_count(name, getattr(self, name))
        for name in ("compiled", "fused", "fused_blocks", "graphed"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} must be true or false, got {getattr(self, name)!r}")
        if not isinstance(self.device, str) or not self.device:
            raise InputError(f"device must be a name such as cpu, got {self.device!r}")
        if self.precision not in get_args(Precision):
            raise InputError(f"precision must be one of {', '.join(get_args(Precision))}, got {self.precision!r}")

    def check(self) -> None:
        """Check that this machine can run it.

        Raises:
            InputError: torch cannot compute on the device here, or there are more threads than cores.
        """
        try:
            torch.zeros(1, device=self.device).item()
        except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
            raise InputError(
                f"device {self.device!r} cannot be used here ({in_a_line(error)}); pass cpu, or leave it out"
            ) from None
        if self.threads > (cores := os.cpu_count() or 1):
            raise InputError(f"threads must be at most {cores}, the cores of this machine, got {self.threads}")

    def describe(self) -> str:
        """Describe the engine in words."""
        threads = f", {counted(self.threads, 'thread')}" if self.device == "cpu" else ""
        return f"{self.device}{threads}, {self.precision}{', compiled' if self.compiled else ''}"


@dataclass(frozen=True)
class EngineChoice:
    """What is asked of an engine; what is left open is decided by the machine and the run.

        >>> choice = hs.EngineChoice(device="cpu", threads=1, precision="fp32")
        >>> choice.engine(hs.recipes.A).describe()
        'cpu, 1 thread, fp32'

    Args:
        device: the device's name in torch; `None` for a GPU if there is one, else the CPU.
        threads: number of CPU threads; `None` for all cores this process may use, or as few as OMP_NUM_THREADS says.
        precision: `fp32`, `bf16`, or `auto` for bf16 where the device has hardware for it.
        compiled: whether blocks go through `torch.compile`. `None` compiles where the run is long enough to repay the
            minute that compiling can take, and where neither `fused_block` nor `fused_attention` can be used: these
            kernels are quicker, and do not compute heads that have been pruned.

    Raises:
        InputError: a field has an invalid value; whether this machine has the device is seen when a run begins.
    """

    device: str | None = None
    threads: int | None = None
    precision: Precision | Literal["auto"] = "auto"
    compiled: bool | None = None

    def __post_init__(self) -> None:
        make_plain(self)
        if self.precision not in (words := ("auto", *get_args(Precision))):
            raise InputError(f"precision must be one of {', '.join(words)}, got {self.precision!r}")
        checked = Engine(
            "cpu" if self.device is None else self.device,
            1 if self.threads is None else self.threads,
            "fp32" if self.precision == "auto" else self.precision,
            False if self.compiled is None else self.compiled,
        )
        if self.device is not None:
            object.__setattr__(self, "device", checked.device)

    def engine(self, setup: Setup) -> Engine:
        """The fastest engine that this choice allows on this machine, for one run.

        Raises:
            InputError: this machine lacks the device or that many threads, or the precision does not exist.
        """
        device = default_device() if self.device is None else self.device
        threads = threads_by_default() if self.threads is None else self.threads
        Engine(device, threads, "fp32" if self.precision == "auto" else self.precision).check()
        precision = best_precision(device) if self.precision == "auto" else self.precision
        on_cpu = torch.device(device).type == "cpu"
        attention = blocks = False
        if not (on_cpu and self.compiled):
            attention, blocks = _ours(setup, precision, device)
        compiled = self.compiled
        if compiled is None:
            instead = on_cpu and (attention or blocks)
            compiled = not instead and _worth_compiling(setup, precision, on_cpu)
        models, rows = len(setup.seeds), setup.recipe.batch_size * setup.problem.sequence_length
        return Engine(
            device=device,
            threads=threads,
            precision=precision,
            compiled=compiled,
            models_at_once=max(1, min(models, _ROWS_AT_ONCE // rows)) if on_cpu else models,
            fused=attention,
            fused_blocks=blocks,
            graphed=torch.device(device).type == "cuda",
        )


def _one_cpu(device: Any) -> Any:
    """The name of a device; torch takes `cpu:0` for the only CPU, which is `cpu` everywhere here."""
    if isinstance(device, torch.device):
        device = str(device)
    return "cpu" if isinstance(device, str) and device.startswith("cpu:") and device[4:].isdigit() else device


FASTEST = EngineChoice()
"""The choice that leaves everything open: whatever is fastest on this machine."""


def _ours(setup: Setup, precision: Precision, device: str) -> tuple[bool, bool]:
    """Whether attention, and whether whole blocks, can go through our own kernels."""
    shape, length = setup.recipe.architecture(setup.problem), setup.problem.sequence_length
    quick = attention_kernels.fits(length, shape.d_head, device) and attention_kernels.available(device)
    if torch.device(device).type != "cpu":
        return quick, False
    whole = fused_block.fits(precision, length, shape.d_model, shape.d_head)
    return quick and shape.d_head in fused_attention.QUICK, whole and fused_block.available(precision)


def engine_here(engine: Engine, setup: Setup) -> Engine:
    """The engine that a run was begun with if this machine has it, else the fastest one here in the same precision."""
    try:
        engine.check()
    except InputError as error:
        here = EngineChoice(precision=engine.precision).engine(setup)
        logging.getLogger("hopscope").warning(f"{error}: the run goes on with {here.describe()}")
        return here
    compiled = engine.compiled and (engine.device != "cpu" or _can_compile())
    blocks = engine.fused_blocks and fused_block.available(engine.precision)
    attention = engine.fused and attention_kernels.available(engine.device)
    return replace(engine, compiled=compiled, fused=attention, fused_blocks=blocks)


def default_device() -> str:
    """`cuda` if there is a GPU, else `cpu`."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def available_cores() -> int:
    """Number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_by_default() -> int:
    """One thread a core, or as few as OMP_NUM_THREADS says; of what is no number there torch complains."""
    cores, most = available_cores(), os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return min(cores, int(most) or cores) if most.isdecimal() else cores


@contextmanager
def using_threads(engine: Engine) -> Iterator[None]:
    """A context in which torch runs on the engine's threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(engine.threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _worth_compiling(setup: Setup, precision: Precision, on_cpu: bool) -> bool:
    """Whether what compiling saves over a run, a fifth to a third, is worth the minute that it takes."""
    if on_cpu and (not _can_compile() or (precision == "fp32" and products.quicker_here())):
        return False  # compiled code multiplies with MKL
    shape, recipe = setup.recipe.architecture(setup.problem), setup.recipe
    per_layer = 4 * shape.d_model * shape.heads * shape.d_head + (8 * shape.d_model**2 if shape.mlp else 0)
    rows = len(setup.seeds) * recipe.batch_size * setup.problem.sequence_length
    operations = 6.0 * per_layer * shape.layers * rows * recipe.steps
    return operations > (5e13 if on_cpu else 5e14)


def _can_compile() -> bool:
    """Whether torch.compile finds what it needs for a CPU: Linux, a C++ compiler, Python's headers."""
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    return sys.platform == "linux" and headers.exists() and shutil.which(os.environ.get("CXX", "c++")) is not None
