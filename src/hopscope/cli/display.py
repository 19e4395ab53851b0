"""Progress on standard error: bars on a terminal; in a log a line at least every 30 seconds."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Event, Thread
from typing import TYPE_CHECKING

import click

from hopscope.words import counted, duration

if TYPE_CHECKING:
    from hopscope.problem.retrieval import RetrievalProblem
    from hopscope.training.execution import Execution
    from hopscope.training.recipe import Setup
    from hopscope.training.trainer import Progress

SECONDS_BETWEEN_LINES = 30.0


def for_people() -> bool:
    """Whether standard error reaches a person's terminal."""
    return sys.stderr.isatty()


class Display:
    """The progress of work while the context lasts: what is being done, how far it is and what is left.

    Args:
        name: the work.
        unit: what is counted of it.
    """

    def __init__(self, name: str, unit: str) -> None:
        self._name, self._unit, self._state = name, unit, ""
        self._began: tuple[float, float] | None = None
        self._over = Event()
        self._lines = Thread(target=self._say_regularly, daemon=True)
        self._bar = None
        if for_people():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            text = TextColumn("{task.description}: {task.fields[state]}", markup=False)
            self._bar = Progress(BarColumn(bar_width=24), text, TimeElapsedColumn(), console=Console(stderr=True))

    def __enter__(self) -> Display:
        if self._bar is None:
            self._lines.start()
        else:
            self._bar.start()
            self._bar.add_task(self._name, state="")
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._bar is None:
            self._lines.join()
        else:
            self._bar.stop()

    def update(self, done: float, total: float, note: str = "") -> None:
        """Say how far the work is, its rate and the time left: `640 of 3200 steps, 2.4 steps/s, 18 min left`."""
        now = time.monotonic()
        began, first = self._began = self._began or (now, done)
        rate = (done - first) / (now - began) if now > began else 0.0
        parts = [f"{done:.0f}%" if self._unit == "%" else f"{done:g} of {total:g} {self._unit}"]
        if rate > 0:
            parts += [] if self._unit == "%" else [f"{rate:.3g} {self._unit}/s"]
            parts.append(f"{duration((total - done) / rate)} left")
        self._state = ", ".join(parts) + (f"; {note}" if note else "")
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, total=total, state=self._state)

    def _say_regularly(self) -> None:
        while not self._over.wait(SECONDS_BETWEEN_LINES):
            if self._state:
                click.echo(f"{self._name}: {self._state}", err=True)


@contextmanager
def counting_display(name: str, total: int) -> Iterator[Callable[[int], None]]:
    """Progress of jobs that are counted; gives the function that is called with how many are done."""
    with Display(name, "jobs") as display:
        yield lambda done: display.update(done, total)


@contextmanager
def runs_display(setups: Sequence[Setup]) -> Iterator[Callable[[dict[str, Progress]], None]]:
    """Progress of many runs, and the losses of the first under way; gives the function that is called with it."""
    by_name = {setup.name: setup for setup in setups}
    total = sum(setup.work for setup in setups)
    with Display("training", "%") as display:

        def show(progress: dict[str, Progress]) -> None:
            done = sum(by_name[name].work * run.step / run.steps for name, run in progress.items())
            ended = sum(run.ended for run in progress.values())
            note = f"{ended} of {counted(len(progress), 'run')} finished"
            for name in [name for name, run in progress.items() if run.step and not run.ended][:1]:
                run = progress[name]
                losses = losses_by_hop(by_name[name].problem, run.partial_losses)
                note += f"; {name} at step {run.step} of {run.steps}: {losses}"
            display.update(100 * done / total if total else 100, 100, note)

        yield show


@contextmanager
def stages_display() -> Iterator[Callable[[str, int, int], None]]:
    """Progress of a search; gives the function that is called as each stage begins, with stages done and in all."""
    with Display("circuit", "stages") as display:
        yield lambda stage, done, stages: display.update(done, stages, stage)


def losses_by_hop(problem: RetrievalProblem, partial_losses: Sequence[Sequence[float | None]]) -> str:
    """Mean losses over the models that have not diverged, hop by hop: `x1 0.012  x2 0.754`."""
    shown = []
    for symbol, losses in zip(problem.target_symbols, zip(*partial_losses, strict=True), strict=False):
        known = [loss for loss in losses if loss is not None and math.isfinite(loss)]
        shown.append(f"{symbol} {sum(known) / len(known):.3f}" if known else f"{symbol} diverged")
    return "  ".join(shown)


def say_execution(execution: Execution) -> None:
    """Say on standard error in which precision work is computed, and settle the process for it."""
    from hopscope.kernels import best_precision, bf16_unit
    from hopscope.processes import tune_process
    from hopscope.training.execution import default_device

    tune_process()
    device = execution.device or default_device()
    replace(execution, device=device).check()
    precision = best_precision(device) if execution.precision == "auto" else execution.precision
    unit = f" ({bf16_unit(device) or 'slow here: no unit for it'})" if precision == "bf16" else ""
    click.echo(f"matrix products on {device} in {precision}{unit}", err=True)
