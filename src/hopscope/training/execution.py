"""How work is computed: device, precision, threads, processes.

An execution never changes what is computed, only rounding. A run records the one it was begun with and keeps it when it
resumes, so that on a CPU a resumed run gives the same bits; on a machine that lacks it, it goes on in the same
precision.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

from hopscope.checks import Count, check_fields
from hopscope.errors import InputError, in_a_line
from hopscope.machine import in_words, memory
from hopscope.model.architecture import Architecture
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.recipe import Recipe, Setup
from hopscope.words import counted

HELD_OUT = 4096
"""Number of sequences in the fixed held-out set behind a run's result."""

_POSITIONS_AT_ONCE = 16_384
"""Positions, over all models, that a CPU computes together: with more, activations leave the caches and fill memory."""

_WORTH_COMPILING = 5e14
"""Operations of a run from which on compiling, which takes a minute, saves more: a fifth to a third."""


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
        compiled: whether blocks go through `torch.compile` on a GPU; `None` where the run is long enough to repay it.
        kernels: whether our own kernels are used where they fit, and on a GPU CUDA graphs; `None` for where they exist.
        workers: number of processes that train runs side by side; `None` for one per core on a CPU, one on a GPU.

    Raises:
        InputError: a field has an invalid value; whether this machine has the device is checked when a run begins.
    """

    device: str | None = None
    threads: Count | None = None
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    compiled: bool | None = None
    kernels: bool | None = None
    workers: Count | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.device is not None and (not isinstance(self.device, str) or not self.device):
            raise InputError(f"device must be a name such as cpu, got {self.device!r}")

    def resolve(self, setup: Setup) -> Execution:
        """The fastest execution of one run on this machine that agrees with this one, with nothing left open.

        Raises:
            InputError: this machine lacks the device or that many threads.
        """
        from hopscope.kernels import best_precision

        device, threads = self.device or default_device(), self.threads or threads_by_default()
        replace(self, device=device, threads=threads).check()
        precision = best_precision(device) if self.precision == "auto" else self.precision
        chosen = replace(self, device=device, threads=threads, precision=precision, workers=1)
        on_cpu, recipe, compiled = _on_cpu(device), setup.recipe, self.compiled
        if self.kernels is None:
            fit = not on_cpu or any(kernels_used(setup.problem, recipe, replace(chosen, kernels=True)))
            chosen = replace(chosen, kernels=fit)
        if compiled is None:
            rows = len(setup.seeds) * recipe.batch_size * setup.problem.sequence_length
            operations = 6 * _block_weights(recipe.architecture(setup.problem)) * rows * recipe.steps
            compiled = operations > _WORTH_COMPILING
        return replace(chosen, compiled=compiled and not on_cpu)

    def resume(self, setup: Setup) -> Execution:
        """This execution, with which a run was begun, if the machine has it, else the fastest in the same precision."""
        try:
            self.check()
        except InputError as error:
            found = Execution(precision=self.precision).resolve(setup)
            logging.getLogger("hopscope").warning(f"{error}: the run goes on with {found.describe()}")
            return found
        return self

    def check(self) -> None:
        """Check that torch can compute on the device here, and that there are no more threads than cores."""
        import torch

        try:
            torch.zeros(1, device=self.device).item()
        except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
            raise InputError(f"device {self.device!r} cannot be used here ({in_a_line(error)}); pass cpu") from None
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
    device, precision = str(execution.device), execution.precision
    if not execution.kernels or precision == "auto":
        return False, False
    from hopscope.kernels import attention as attention_kernels
    from hopscope.kernels import fused_attention, fused_block

    shape, length = recipe.architecture(problem), problem.sequence_length
    quick = attention_kernels.fits(length, shape.d_head, device) and attention_kernels.available(device)
    if not _on_cpu(device):
        return quick, False
    whole = shape.score_scale == "head_dim" and fused_block.fits(precision, length, shape.d_model, shape.d_head)
    return quick and shape.d_head in fused_attention.QUICK, whole and fused_block.available(precision)


def models_at_once(problem: RetrievalProblem, recipe: Recipe, models: int, execution: Execution) -> int:
    """How many models of an ensemble share one batched operation: all on a GPU, as many as caches hold on a CPU."""
    if not _on_cpu(str(execution.device)):
        return models
    return max(1, min(models, _POSITIONS_AT_ONCE // (recipe.batch_size * problem.sequence_length)))


def least_memory(setup: Setup, execution: Execution) -> int:
    """Bytes for weights, gradients and moments of all models and the activations of those computed together."""
    problem, recipe, models = setup.problem, setup.recipe, len(setup.seeds)
    shape = recipe.architecture(problem)
    attention, blocks = kernels_used(problem, recipe, execution)
    patterns = 0 if attention or blocks else shape.heads * problem.sequence_length  # kernels compute them again
    hidden = 4 * shape.d_model * (1 if blocks else 2) if shape.mlp else 0  # likewise GELU's output
    saved = 2 * shape.d_model + shape.heads * shape.d_head + hidden + patterns
    rows = models_at_once(problem, recipe, models, execution) * recipe.batch_size * problem.sequence_length
    weights = _block_weights(shape) + shape.d_model * (problem.input_dim + problem.target_dim)
    return 16 * models * weights + shape.layers * rows * saved * (2 if execution.precision == "bf16" else 4)


def _block_weights(shape: Architecture) -> int:
    """The number of weights in the blocks of one model, without biases and norms."""
    inner = shape.heads * shape.d_head
    return shape.layers * (4 * shape.d_model * inner + (8 * shape.d_model**2 if shape.mlp else 0))


def check_memory(setup: Setup, execution: Execution) -> None:
    """Check that a run fits into the memory of its device."""
    import torch

    device = torch.device(str(execution.device))
    there = torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else memory()
    if (needed := least_memory(setup, execution)) > there:
        raise InputError(
            f"this run would take {in_words(needed)} of memory at the least and there are {in_words(there)}; "
            "make layers, d_model, batch_size, hops, chains or the number of seeds smaller"
        )


def default_device() -> str:
    """`cuda` if there is a GPU, else `cpu`."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _on_cpu(device: str) -> bool:
    return device.partition(":")[0] == "cpu"


def available_cores() -> int:
    """Number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_by_default() -> int:
    """One thread a core, or as few as OMP_NUM_THREADS says."""
    cores, most = available_cores(), os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return min(cores, int(most) or cores) if most.isdecimal() else cores


@contextmanager
def using_threads(threads: int) -> Iterator[None]:
    """A context in which torch runs on that many threads."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
