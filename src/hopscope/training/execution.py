"""How work is computed: device, precision, threads, processes.

An execution never changes what is computed, only rounding. A run records the one it was begun with and keeps it when it
resumes, so that on a CPU a resumed run gives the same bits; on a machine that lacks it, it goes on in the same
precision.
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
from hopscope.kernels import Precision, best_precision, fused_attention, fused_block, products
from hopscope.kernels import attention as attention_kernels
from hopscope.machine import in_words, memory
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.recipe import Recipe, Setup
from hopscope.words import counted

HELD_OUT = 4096
"""Number of sequences in the fixed held-out set behind a run's result."""

_POSITIONS_AT_ONCE = 16_384
"""Positions, over all models, that a CPU computes together: with more, activations leave the caches and fill memory."""


def _device_name(device: Any) -> str | None:
    """The name of a device as it is recorded; torch takes `cpu:0` for the only CPU, which is `cpu` everywhere here."""
    if isinstance(device, torch.device):
        device = str(device)
    if device is not None and (not isinstance(device, str) or not device):
        raise InputError(f"device must be a name such as cpu, got {device!r}")
    return "cpu" if device and device.startswith("cpu:") and device[4:].isdigit() else device


@dataclass(frozen=True)
class Execution:
    """How work is computed; the machine and the run decide what is left open, see `resolve`.

        >>> hs.Execution(device="cpu", threads=1, precision="fp32").resolve(hs.recipes.A).describe()
        'cpu, 1 thread, fp32'

    Args:
        device: the device's name in torch; `None` for a GPU if there is one, else the CPU.
        threads: number of CPU threads, over all workers; `None` for all cores this process may use, or as few as
            OMP_NUM_THREADS says.
        precision: `fp32` is the reference. In `bf16`, matrix products and activations, the residual stream and its sums
            included, are in bf16; weights, gradients, the optimiser and the losses stay in fp32. `auto` for bf16 where
            the device has hardware for it.
        compiled: whether blocks go through `torch.compile`. `None` compiles where the run is long enough to repay the
            minute that compiling can take, and where no kernels of our own can be used: these are quicker, and do not
            compute heads that have been pruned.
        kernels: whether our own kernels are used where they fit, and on a GPU CUDA graphs; `None` for where they exist.
        workers: number of processes that train runs side by side; `None` for one per core on a CPU, one on a GPU.

    Raises:
        InputError: a field has an invalid value; whether this machine has the device is seen when a run begins.
    """

    device: str | None = None
    threads: int | None = None
    precision: Precision | Literal["auto"] = "auto"
    compiled: bool | None = None
    kernels: bool | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        make_plain(self)
        object.__setattr__(self, "device", _device_name(self.device))
        for name in ("threads", "workers"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        for name in ("compiled", "kernels"):
            if not isinstance(getattr(self, name), bool | None):
                raise InputError(f"{name} must be true or false, got {getattr(self, name)!r}")
        if self.precision not in (words := ("auto", *get_args(Precision))):
            raise InputError(f"precision must be one of {', '.join(words)}, got {self.precision!r}")

    def resolve(self, setup: Setup) -> Execution:
        """The fastest execution of one run on this machine that is as asked, with nothing left open.

        Raises:
            InputError: this machine lacks the device or that many threads.
        """
        device = default_device() if self.device is None else self.device
        threads = threads_by_default() if self.threads is None else self.threads
        replace(self, device=device, threads=threads).check()
        precision = best_precision(device) if self.precision == "auto" else self.precision
        chosen = replace(self, device=device, threads=threads, precision=precision, workers=1)
        on_cpu = torch.device(device).type == "cpu"
        if self.kernels is None:
            wanted = not (on_cpu and self.compiled)
            there = any(kernels_used(setup.problem, setup.recipe, replace(chosen, kernels=True)))
            chosen = replace(chosen, kernels=wanted and (there or not on_cpu))
        if self.compiled is None:
            compiled = not (on_cpu and chosen.kernels) and _worth_compiling(setup, precision, on_cpu)
            chosen = replace(chosen, compiled=compiled)
        return chosen

    def resume(self, setup: Setup) -> Execution:
        """This execution, with which a run was begun, if the machine has it, else the fastest in the same precision."""
        try:
            self.check()
        except InputError as error:
            here = Execution(precision=self.precision).resolve(setup)
            logging.getLogger("hopscope").warning(f"{error}: the run goes on with {here.describe()}")
            return here
        return replace(self, compiled=self.compiled and (self.device != "cpu" or _can_compile()))

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
        if self.threads is not None and self.threads > (cores := os.cpu_count() or 1):
            raise InputError(f"threads must be at most {cores}, the cores of this machine, got {self.threads}")

    def describe(self) -> str:
        """Describe a resolved execution in words."""
        threads = f", {counted(self.threads or 1, 'thread')}" if self.device == "cpu" else ""
        return f"{self.device}{threads}, {self.precision}{', compiled' if self.compiled else ''}"


FASTEST = Execution()
"""Whatever is fastest on this machine."""

REFERENCE = Execution("cpu", threads=1, precision="fp32", compiled=False, kernels=False, workers=1)
"""Plain torch in fp32 on one thread, with which everything faster is compared."""


def kernels_used(problem: RetrievalProblem, recipe: Recipe, execution: Execution) -> tuple[bool, bool]:
    """Whether attention, and whether whole blocks, go through our own kernels."""
    if not execution.kernels:
        return False, False
    device, precision = str(execution.device), execution.precision
    assert precision != "auto"
    shape, length = recipe.architecture(problem), problem.sequence_length
    quick = attention_kernels.fits(length, shape.d_head, device) and attention_kernels.available(device)
    if torch.device(device).type != "cpu":
        return quick, False
    whole = fused_block.fits(precision, length, shape.d_model, shape.d_head)
    return quick and shape.d_head in fused_attention.QUICK, whole and fused_block.available(precision)


def models_at_once(problem: RetrievalProblem, recipe: Recipe, models: int, execution: Execution) -> int:
    """How many models of an ensemble share one batched operation: all on a GPU, as many as caches hold on a CPU."""
    if torch.device(str(execution.device)).type != "cpu":
        return models
    return max(1, min(models, _POSITIONS_AT_ONCE // (recipe.batch_size * problem.sequence_length)))


def least_memory(setup: Setup, execution: Execution) -> int:
    """Bytes that training takes at the least: weights, gradients and moments of all models, the activations kept for
    the backward pass of the models that are computed together, one batch of data, and the held-out set.
    """
    problem, recipe, models = setup.problem, setup.recipe, len(setup.seeds)
    shape = recipe.architecture(problem)
    width, inner = shape.d_model, shape.heads * shape.d_head
    length, number = problem.sequence_length, 4
    block = 4 * width * inner + (8 * width**2 if shape.mlp else 0)
    weights = shape.layers * block + width * (problem.input_dim + problem.target_dim)
    attention, blocks = kernels_used(problem, recipe, execution)
    recomputed = attention or blocks  # in the backward pass
    patterns = 0 if recomputed else shape.heads * length
    hidden = 4 * width * (1 if blocks else 2) if shape.mlp else 0  # likewise GELU's output
    precision: Precision = "fp32" if execution.precision == "auto" else execution.precision
    made_again = blocks and not fused_block.keeps_products(precision)
    kept = 2 * width + (inner if made_again else 3 * inner + hidden + patterns)
    rows = recipe.batch_size * length
    activations = shape.layers * rows * kept * (2 if precision == "bf16" else number)
    data = models * max(rows, recipe.validation_size * length) * problem.input_dim * number
    held_out = HELD_OUT * length * problem.input_dim * number
    together = models_at_once(problem, recipe, models, execution)
    return 4 * number * models * weights + together * activations + data + held_out


def check_memory(setup: Setup, execution: Execution) -> None:
    """Check that a run fits into the memory of its device.

    Raises:
        InputError: the run would take more memory than there is.
    """
    needed, there = least_memory(setup, execution), memory_of(execution)
    if needed > there:
        raise InputError(
            f"this run would take {in_words(needed)} of memory at the least and there are {in_words(there)}; "
            "make layers, d_model, batch_size, hops, chains or the number of seeds smaller"
        )


def memory_of(execution: Execution) -> int:
    """Bytes of memory of the device."""
    device = torch.device(str(execution.device))
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else memory()


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
def using_threads(threads: int) -> Iterator[None]:
    """A context in which torch runs on that many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
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
