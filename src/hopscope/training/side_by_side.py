"""Many runs side by side, in several processes of this machine.

The run folders are the ledger: a run that is finished is not touched, and one that was cut short continues.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import msgspec

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
    setups: Sequence[Setup], folder: Path, *, execution: Execution = FASTEST, progress: RunsProgress | bool = True
) -> None:
    """Train every setup into `folder / setup.name`, the longest run first.

        >>> from dataclasses import replace
        >>> few = replace(hs.recipes.LAPTOP, steps=2)
        >>> problem = hs.RetrievalProblem(hops=1)
        >>> setups = [hs.Setup(f"seed-{seed}", problem, few, (seed,)) for seed in (0, 1)]
        >>> hs.train_all(setups, folder / "runs", execution=hs.Execution("cpu", workers=1))
        >>> (folder / "runs" / "seed-1" / "result.json").exists()
        True

    Each worker trains runs on its share of the cores; on a GPU there is one worker unless `execution` has more.

    Args:
        setups: what to train; finished runs are skipped.
        folder: the folder that holds their run folders.
        execution: how steps are computed; its threads are shared among its workers, at most one per run.
        progress: whether it is shown; or a function, called now and then with the progress of every run.

    Raises:
        InputError: names repeat, a run does not fit into memory, or a folder is in use for something else.
    """
    left = unfinished(setups, folder)
    device = execution.device or default_device()
    cores = execution.threads or available_cores()
    workers = min(execution.workers or (cores if device == "cpu" else 1), max(1, len(left)))
    share = max(1, cores // workers)
    if execution.threads is None:
        share = min(share, threads_by_default())
    each = replace(execution, device=device, threads=share)
    for setup in left:  # before training any, so that none is refused after others were trained
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
    """Train one run in a worker process, to which its `RunFolder` is not sent back."""
    train(setup, folder, execution=execution)


def unfinished(setups: Sequence[Setup], folder: Path) -> list[Setup]:
    """The setups whose run is not finished, the longest first. Names must differ and run folders be their own."""
    if len({setup.name for setup in setups}) != len(setups):
        raise InputError("two setups have the same name; give each its own")
    for setup in setups:
        if (folder / setup.name / "run.json").exists():
            RunFolder(folder / setup.name).require(setup)
    left = [setup for setup in setups if not (folder / setup.name / "result.json").exists()]
    return sorted(left, key=lambda setup: -setup.work)


def finished(setups: Iterable[Setup], folder: Path) -> dict[str, RunFolder]:
    """The finished runs, by name; a run folder that holds another run is refused."""
    there = [setup for setup in setups if (folder / setup.name / "result.json").exists()]
    return {setup.name: RunFolder(folder / setup.name).require(setup) for setup in there}


@contextmanager
def runs_display(setups: Sequence[Setup]) -> Iterator[Callable[[dict[str, Progress]], None]]:
    """Progress of many runs, and the losses of the first under way; gives the function that is called with it."""
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
    """Progress of one run; gives the function that is called with it."""
    with runs_display([setup]) as show:
        yield lambda progress: show({setup.name: progress})


def losses_by_hop(problem: RetrievalProblem, partial_losses: Sequence[Sequence[float | None]]) -> str:
    """Mean losses over the models that have not diverged, hop by hop: `x1 0.012  x2 0.754`."""
    shown = []
    for symbol, losses in zip(problem.target_symbols, zip(*partial_losses, strict=True), strict=False):
        known = [loss for loss in losses if loss is not None and math.isfinite(loss)]
        shown.append(f"{symbol} {sum(known) / len(known):.3f}" if known else f"{symbol} diverged")
    return "  ".join(shown)


_ROWS_READ = 1 << 16
"""Bytes at the end of the metrics in which the last row is looked for."""


def progress_of(setups: Iterable[Setup], folder: Path) -> dict[str, Progress]:
    """The progress of every run, by the setup's name, read from its folder; a run without a folder is at step 0. Of the
    losses those of the last model."""
    found = {}
    for setup in setups:
        row = None
        path = folder / setup.name / "metrics.jsonl"
        with suppress(OSError, ValueError, IndexError), path.open("rb") as file:  # no row yet, or a damaged one
            file.seek(max(0, file.seek(0, os.SEEK_END) - _ROWS_READ))
            row = msgspec.json.decode(file.read().split(b"\n")[-2], type=MetricsRow)
        step, steps = row.step if row else 0, setup.recipe.steps
        if (folder / setup.name / "result.json").exists():
            step = steps = step or steps  # that rows of a finished run are missing is reported when it is opened
        found[setup.name] = Progress(step, steps, (row.partial_losses,) if row else ())
    return found
