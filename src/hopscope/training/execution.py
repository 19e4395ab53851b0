"""Executions: the device, precision, threads and processes to compute with.

An execution changes only the rounding of results. A run records the execution with which it began and uses it again
when it resumes, so that a resumed run on a CPU gives the same bits. On a machine that lacks the device or the cores, a
resumed run keeps the precision.
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
"""Number of sequences in the fixed held-out set of a run's result."""

_POSITIONS_AT_ONCE = 16_384
"""Largest number of positions, over all models, that a CPU computes together, so that activations fit into caches."""

_WORTH_COMPILING = 5e14
"""Number of operations above which compiling, which takes a minute, shortens a run (by a fifth to a third)."""


@dataclass(frozen=True)
class Execution:
    """The device, precision, threads and processes to compute with. `resolve` chooses the fields that are left open.

        >>> hs.Execution(device="cpu", threads=1, precision="fp32").resolve(hs.recipes.A).describe()
        'cpu, 1 thread, fp32'

    Args:
        device: the device's name in torch, e.g. `cpu`; `None` for a GPU if the machine has one, else the CPU.
        threads: number of CPU threads for all workers together; `None` for one per core that this process may use, or
            fewer if OMP_NUM_THREADS is smaller.
        precision: `fp32` is the reference. With `bf16`, matrix products and activations are in bf16, including the
            residual stream and its sums; weights, gradients, the optimiser and the losses stay in fp32. `auto` for
            `bf16` if the device has hardware that computes it faster, else `fp32`.
        compiled: whether to compile blocks with `torch.compile` on a GPU; `None` to compile if the run is long enough.
        kernels: whether to use hopscope's own kernels, and CUDA graphs on a GPU; `None` to use them if they fit.
        workers: number of processes, each training one run at a time; `None` for one per core on a CPU, one on a GPU.

    Raises:
        InputError: a field has an invalid value. Whether this machine has the device is checked when a run begins.
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
        """Return this execution with every open field set to the fastest choice for one run on this machine.

        Raises:
            InputError: this machine lacks the device, or has fewer cores than `threads`.
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
        """Return the execution to resume a run with: this one if the machine has the device and cores, else the fastest
        one in the same precision."""
        try:
            self.check()
        except InputError as error:
            found = Execution(precision=self.precision).resolve(setup)
            logging.getLogger("hopscope").warning(f"{error}; the run continues on {found.describe()}")
            return found
        return self

    def check(self) -> None:
        """Check that torch can use the device on this machine, and that `threads` is at most the number of cores."""
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
"""The fastest execution on this machine."""

REFERENCE = Execution("cpu", threads=1, precision="fp32", compiled=False, kernels=False, workers=1)
"""Plain torch in fp32 on one CPU thread, the reference for all faster executions."""


def kernels_used(problem: RetrievalProblem, recipe: Recipe, execution: Execution) -> tuple[bool, bool]:
    """Return whether attention uses hopscope's own kernels, and whether whole blocks do."""
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
    """Return how many models share one batched operation: all on a GPU, and as many as fit into caches on a CPU."""
    if not _on_cpu(str(execution.device)):
        return models
    return max(1, min(models, _POSITIONS_AT_ONCE // (recipe.batch_size * problem.sequence_length)))


def least_memory(setup: Setup, execution: Execution) -> int:
    """Return the bytes of all models' weights, gradients and moments and of the activations computed together."""
    problem, recipe, models = setup.problem, setup.recipe, len(setup.seeds)
    shape = recipe.architecture(problem)
    attention, blocks = kernels_used(problem, recipe, execution)
    patterns = 0 if attention or blocks else shape.heads * problem.sequence_length  # kernels compute them again
    hidden = 4 * shape.d_model * (1 if blocks else 2) if shape.mlp else 0  # kernels compute GELU's output again
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
            f"this run needs {in_words(needed)} of memory at the least, but its device has {in_words(there)}; "
            "reduce layers, d_model, batch_size, hops, chains or the number of seeds"
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
    """Return the number of cores that this process may use, or OMP_NUM_THREADS if that is smaller."""
    cores, most = available_cores(), os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return min(cores, int(most) or cores) if most.isdecimal() else cores


@contextmanager
def using_threads(threads: int) -> Iterator[None]:
    """A context in which torch uses the given number of threads."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
