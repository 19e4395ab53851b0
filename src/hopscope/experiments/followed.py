"""Sections 8 and 9 at a preset's scale: the circuits of its followed runs, and how they came to be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hopscope.circuits.find import circuit_of_run
from hopscope.circuits.search import Settings
from hopscope.emergence.of_run import emergence_of_run
from hopscope.parallel import in_processes
from hopscope.training.run_folder import RunFolder

_SEARCH = Settings(orders=2, growing=1)
"""Fewer ways to search than `hopscope circuit` takes by itself: minutes count here."""


def follow(run: RunFolder, workers: int, tick: Callable[[], None] | None = None) -> None:
    """Find and certify the circuit of every model of a run, and follow it through the checkpoints.

    What stands beside the run already is not done again.
    """
    jobs = [(run.path, number) for number in range(len(run.seeds))]
    in_processes(_follow_one, jobs, min(workers, len(jobs)), tick)


def _follow_one(path: Path, number: int) -> None:
    """One model, in a process of its own on one thread."""
    import torch

    torch.set_num_threads(1)
    run = RunFolder(path)
    if circuit_of_run(run, number, settings=_SEARCH).found:
        emergence_of_run(run, number)
