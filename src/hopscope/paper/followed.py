"""Sections 8 and 9 at a preset's scale: circuits, and how they came to be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from hopscope.circuits.find import circuit_of_run
from hopscope.circuits.search.budget import Budget, Effort
from hopscope.emergence.of_run import emergence_of_run
from hopscope.parallel import in_processes
from hopscope.training.run import Run


def follow(runs: Sequence[Run], effort: Effort | Budget, workers: int, tick: Callable[[], None] | None = None) -> None:
    """Find and certify the circuit of every model of the runs, and follow it through their checkpoints.

    What stands beside a run already is not done again.
    """
    jobs = [(run.path, number, effort) for run in runs for number in range(len(run.seeds))]
    in_processes(_follow_one, jobs, max(1, min(workers, len(jobs))), tick)


def _follow_one(path: Path, number: int, effort: Effort | Budget) -> None:
    """One model, in a process of its own on one thread."""
    import torch

    torch.set_num_threads(1)
    run = Run(path)
    if circuit_of_run(run, number, effort=effort).found:
        emergence_of_run(run, number)
