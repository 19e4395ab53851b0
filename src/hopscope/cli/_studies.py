"""Progress of many runs, for the verbs that train whole studies: bars on a terminal, lines in a log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic

import click
from rich import progress as bar
from rich.console import Console

from hopscope.cli._common import for_people
from hopscope.cli._progress import losses_by_hop
from hopscope.training.progress import Progress
from hopscope.training.setup import Setup
from hopscope.words import counted


@contextmanager
def study_bars(setups: Sequence[Setup]) -> Iterator[Callable[[dict[str, Progress]], None]]:
    """A bar for all the work and one for each run under way; gives the function that moves them."""
    if not for_people():
        yield _run_lines()
        return
    columns = (
        bar.TextColumn("{task.description:<16}"),
        bar.BarColumn(bar_width=30),
        bar.TextColumn("{task.percentage:>3.0f}%"),
        bar.TextColumn("{task.fields[note]}"),
        bar.TimeElapsedColumn(),
        bar.TimeRemainingColumn(),
    )
    total = sum(setup.work for setup in setups)
    by_name = {setup.name: setup for setup in setups}
    with bar.Progress(*columns, console=Console(stderr=True)) as bars:
        everything = bars.add_task("training", total=total, note="")
        tasks = {
            name: bars.add_task(f"  {name}", total=setup.recipe.steps, note="", visible=False)
            for name, setup in by_name.items()
        }

        def move(progress_by_name: dict[str, Progress]) -> None:
            done = 0.0
            finished = 0
            for name, progress in progress_by_name.items():
                setup = by_name[name]
                done += setup.work * progress.step / progress.steps
                finished += progress.ended
                under_way = progress.then or 0 < progress.step < progress.steps
                bars.update(
                    tasks[name],
                    completed=progress.step,
                    total=progress.steps,
                    visible=under_way,
                    note="its circuit" if progress.then else _note(setup, progress, bars.tasks[tasks[name]].speed),
                )
            bars.update(everything, completed=done, note=f"{finished} of {len(progress_by_name)} runs")

        yield move


def _run_lines() -> Callable[[dict[str, Progress]], None]:
    """Says in a log of each run that it is finished, if it was not when this was first told."""
    began = monotonic()
    known: set[str] | None = None

    def tell(progress_by_name: dict[str, Progress]) -> None:
        nonlocal known
        ended = [name for name, progress in progress_by_name.items() if progress.ended and not progress.then]
        known = set(ended) if known is None else known
        for name in ended:
            if name not in known:
                known.add(name)
                _say(name, len(known), len(progress_by_name), began)

    return tell


def _job_lines(what: str, jobs: int) -> Callable[[int], None]:
    """Says in a log how many jobs are done, when it is more than before."""
    began, known = monotonic(), 0

    def tell(done: int) -> None:
        nonlocal known
        if done > known:
            _say(what, done, jobs, began)
        known = done

    return tell


def _say(what: str, done: int, of: int, began: float) -> None:
    click.echo(f"{what} ({done} of {of}): after {monotonic() - began:.0f} s", err=True)


def _note(setup: Setup, progress: Progress, speed: float | None) -> str:
    """A run in words: models, steps per second, and mean losses hop by hop."""
    models = counted(len(setup.seeds), "model")
    rate = f", {speed:.1f} steps/s" if speed else ""
    losses = losses_by_hop(setup.problem, progress.partial_losses) if progress.partial_losses else ""
    return f"{models}{rate}  {losses}"


@contextmanager
def waiting(what: str, jobs: int) -> Iterator[Callable[[int], None]]:
    """A bar for jobs of unknown length; gives the function that is told how many are done."""
    if not for_people():
        yield _job_lines(what, jobs)
        return
    columns = (
        bar.TextColumn("{task.description}"),
        bar.BarColumn(bar_width=30),
        bar.MofNCompleteColumn(),
        bar.TimeElapsedColumn(),
        bar.TimeRemainingColumn(),
    )
    with bar.Progress(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task(what, total=jobs)
        yield lambda done: bars.update(task, completed=done)
