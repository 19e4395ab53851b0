"""Progress on standard error: bars on a terminal; in a log a line at least every 30 seconds."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event, Thread
from typing import TYPE_CHECKING

import click

from hopscope.words import counted, duration

if TYPE_CHECKING:
    from rich.progress import TaskID

    from hopscope.problem.retrieval import RetrievalProblem
    from hopscope.training.execution import Execution
    from hopscope.training.recipe import Setup
    from hopscope.training.trainer import Progress

SECONDS_BETWEEN_LINES = 30.0


def for_people() -> bool:
    """Whether standard error reaches a person's terminal."""
    return sys.stderr.isatty()


@dataclass
class _Task:
    """A piece of work: `done` of `total` units; `first` were done when it `began`, in monotonic seconds."""

    unit: str
    began: float
    first: float
    done: float
    total: float
    note: str = ""

    def __str__(self) -> str:
        """How far it is, its rate and the time left: `640 of 3200 steps, 2.4 steps/s, 18 min left`."""
        seconds = time.monotonic() - self.began
        rate = (self.done - self.first) / seconds if seconds > 0 else 0.0
        share = self.unit == "%"
        parts = [f"{self.done:.0f}%" if share else f"{self.done:g} of {self.total:g} {self.unit}"]
        if rate > 0:
            parts += [] if share else [f"{rate:.3g} {self.unit}/s"]
            parts.append(f"{duration((self.total - self.done) / rate)} left")
        return ", ".join(parts) + (f"; {self.note}" if self.note else "")


class Display:
    """The progress of work while the context lasts: what is being done, how far it is and what is left."""

    def __init__(self) -> None:
        self._tasks: dict[str, _Task] = {}
        self._ids: dict[str, TaskID] = {}
        self._over = Event()
        self._lines = Thread(target=self._say_regularly, daemon=True)
        self._bars = None
        if for_people():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            name, state = (TextColumn(f"{{task.{field}}}", markup=False) for field in ("description", "fields[state]"))
            columns = (name, BarColumn(bar_width=24), state, TimeElapsedColumn())
            self._bars = Progress(*columns, console=Console(stderr=True))

    def __enter__(self) -> Display:
        if self._bars is not None:
            self._bars.start()
        else:
            self._lines.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._bars is not None:
            self._bars.stop()
        else:
            self._lines.join()

    def update(self, name: str, done: float, total: float, unit: str, note: str = "") -> None:
        """Show how far a piece of work is; the first time it is mentioned it gets its bar."""
        task = self._tasks.setdefault(name, _Task(unit, time.monotonic(), done, done, total))
        task.done, task.total, task.note = done, total, note
        if self._bars is not None:
            if name not in self._ids:
                self._ids[name] = self._bars.add_task(name, state="")
            self._bars.update(self._ids[name], completed=done, total=total, state=str(task))

    def finish(self, name: str) -> None:
        """Take a finished piece of work away."""
        if self._tasks.pop(name, None) is not None and self._bars is not None:
            self._bars.remove_task(self._ids.pop(name))

    def _say_regularly(self) -> None:
        while not self._over.wait(SECONDS_BETWEEN_LINES):
            for name, task in self._tasks.copy().items():
                click.echo(f"{name}: {task}", err=True)


@contextmanager
def counting_display(name: str, total: int, unit: str = "jobs") -> Iterator[Callable[[int], None]]:
    """Progress of work that is counted; gives the function that is called with how much is done."""
    with Display() as display:
        yield lambda done: display.update(name, done, total, unit)


@contextmanager
def runs_display(setups: Sequence[Setup]) -> Iterator[Callable[[dict[str, Progress]], None]]:
    """Progress of many runs, all together and each that is under way; gives the function that is called with it."""
    by_name = {setup.name: setup for setup in setups}
    total = sum(setup.work for setup in setups)
    with Display() as display:

        def show(progress: dict[str, Progress]) -> None:
            ended = [name for name, run in progress.items() if run.ended]
            done = sum(by_name[name].work * run.step / run.steps for name, run in progress.items())
            note = f"{len(ended)} of {counted(len(progress), 'run')} finished"
            display.update("training", 100 * done / total, 100, "%", note)
            for name, run in progress.items():
                if name in ended:
                    display.finish(name)
                elif run.step:
                    note = losses_by_hop(by_name[name].problem, run.partial_losses)
                    display.update(name, run.step, run.steps, "steps", note)

        yield show


@contextmanager
def stages_display() -> Iterator[Callable[[str, int, int], None]]:
    """Progress of a search; gives the function that is called as each stage begins, with stages done and in all."""
    with Display() as display:
        yield lambda stage, done, stages: display.update("circuit", done, stages, "stages", stage)


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
