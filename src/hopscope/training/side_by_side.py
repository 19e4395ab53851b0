"""Train many runs side by side, in several processes of this machine.

The run folders show what is done: finished runs are skipped, and interrupted runs continue.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from hopscope.checks import check_folder
from hopscope.display import Display, reporting
from hopscope.errors import InputError
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.processes import in_processes
from hopscope.training.execution import (
    FASTEST,
    Execution,
    available_cores,
    check_memory,
    default_device,
    threads_by_default,
)
from hopscope.training.metrics import MetricsRow
from hopscope.training.recipe import Setup
from hopscope.training.run import RunFolder
from hopscope.training.trainer import Progress, train
from hopscope.words import counted

RunsProgress = Callable[[dict[str, Progress]], None]
"""A function that is called with the progress of every run, by the setup's name."""


def train_all(
    setups: Sequence[Setup], folder: Path | str, *, execution: Execution = FASTEST, progress: RunsProgress | bool = True
) -> None:
    """Train every setup into `folder / setup.name`, the longest run first.

        >>> from dataclasses import replace
        >>> few = replace(hs.recipes.LAPTOP, steps=2)
        >>> problem = hs.RetrievalProblem(hops=1)
        >>> setups = [hs.Setup(f"seed-{seed}", problem, few, (seed,)) for seed in (0, 1)]
        >>> hs.train_all(setups, folder / "runs", execution=hs.Execution("cpu", workers=1))
        >>> (folder / "runs" / "seed-1" / "result.json").exists()
        True

    Each worker process trains one run at a time on its share of the cores. On a GPU, the default is one worker.

    Args:
        setups: what to train; finished runs are skipped.
        folder: the folder that contains the run folders.
        execution: how steps are computed. Its threads are divided among its workers, at most one per run.
        progress: whether to show progress, or a function that is called regularly with the progress of every run.

    Raises:
        InputError: names repeat, a run does not fit into memory, or a folder is in use for something else.
    """
    folder = check_folder(folder)
    left = unfinished(setups, folder)
    device = execution.device or default_device()
    cores = execution.threads or available_cores()
    workers = min(execution.workers or (cores if device == "cpu" else 1), max(1, len(left)))
    share = max(1, cores // workers)
    if execution.threads is None:
        share = min(share, threads_by_default())
    each = replace(execution, device=device, threads=share)
    for setup in left:  # check all before training any, so that no run is refused after hours of training
        check_memory(setup, each.resolve(setup))
    with reporting(progress, runs_display(setups)) as report:

        def show(*_: object) -> None:
            if progress:
                report(progress_of(setups, folder))

        if workers > 1:
            in_processes(_train, [(setup, folder / setup.name, each) for setup in left], workers, show)
        else:
            for setup in left:
                train(setup, folder / setup.name, execution=each, progress=show)
        show()


def _train(setup: Setup, folder: Path, execution: Execution) -> None:
    """Train one run in a worker process, without sending its `RunFolder` back."""
    train(setup, folder, execution=execution)


def unfinished(setups: Sequence[Setup], folder: Path) -> list[Setup]:
    """Return the setups whose run is not finished, the longest run first.

    Raises:
        InputError: names repeat, or a run folder contains a run of another setup.
    """
    if len({setup.name for setup in setups}) != len(setups):
        raise InputError("two setups have the same name; give each its own")
    if not all(setup.name for setup in setups):
        raise InputError("a setup has no name; give it one, which names its run folder")
    for setup in setups:
        if (folder / setup.name / "run.json").exists():
            RunFolder(folder / setup.name).require(setup)
    left = [setup for setup in setups if not (folder / setup.name / "result.json").exists()]
    return sorted(left, key=lambda setup: -setup.work)


def finished(setups: Iterable[Setup], folder: Path) -> dict[str, RunFolder]:
    """Return the finished runs by name. Raises an `InputError` if a run folder contains a run of another setup."""
    there = [setup for setup in setups if (folder / setup.name / "result.json").exists()]
    return {setup.name: RunFolder(folder / setup.name).require(setup) for setup in there}


@contextmanager
def runs_display(setups: Sequence[Setup]) -> Iterator[Callable[[dict[str, Progress]], None]]:
    """Show the progress of many runs, and the losses of the first running one. Yields the function that updates it."""
    by_name = {setup.name: setup for setup in setups}
    total = sum(setup.work for setup in setups)
    with Display("training", "%") as update:

        def show(progress: dict[str, Progress]) -> None:
            done = sum(by_name[name].work * run.step / run.steps for name, run in progress.items())
            ended = sum(run.ended for run in progress.values())
            note = f"{ended} of {counted(len(progress), 'run')} finished"
            for name in [name for name, run in progress.items() if run.step and not run.ended][:1]:
                run = progress[name]
                losses = losses_by_hop(by_name[name].problem, run.partial_losses)
                note += f"; {name} at step {run.step} of {run.steps}: {losses}"
            update(100 * done / total if total else 100, 100, note)

        yield show


@contextmanager
def run_display(setup: Setup) -> Iterator[Callable[[Progress], None]]:
    """Show the progress of one run. Yields the function that updates the display."""
    with runs_display([setup]) as show:
        yield lambda progress: show({setup.name: progress})


def losses_by_hop(problem: RetrievalProblem, partial_losses: Sequence[Sequence[float | None]]) -> str:
    """Return each hop's mean loss over the models that have not diverged, as text: `x1 0.012  x2 0.754`."""
    shown = []
    for symbol, losses in zip(problem.target_symbols, zip(*partial_losses, strict=True), strict=False):
        known = [loss for loss in losses if loss is not None and math.isfinite(loss)]
        shown.append(f"{symbol} {sum(known) / len(known):.3f}" if known else f"{symbol} diverged")
    return "  ".join(shown)


_ROWS_READ = 1 << 16
"""Number of bytes at the end of the metrics file that are searched for the last row."""


def progress_of(setups: Iterable[Setup], folder: Path) -> dict[str, Progress]:
    """Read the progress of every run, by the setup's name, from its folder. A run without a folder is at step 0. The
    losses are those of the run's last model."""
    found = {}
    for setup in setups:
        row = None
        path = folder / setup.name / "metrics.jsonl"
        with suppress(OSError, ValueError, IndexError), path.open("rb") as file:  # no row yet, or a damaged one
            file.seek(max(0, file.seek(0, os.SEEK_END) - _ROWS_READ))
            row = msgspec.json.decode(file.read().split(b"\n")[-2], type=MetricsRow)
        step, steps = row.step if row else 0, setup.recipe.steps
        if (folder / setup.name / "result.json").exists():
            step = steps = step or steps  # missing rows of a finished run are reported when it is opened
        found[setup.name] = Progress(step, steps, (row.partial_losses,) if row else ())
    return found
