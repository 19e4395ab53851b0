"""Progress on standard error: bars on a terminal; in a log a line at least every 30 seconds."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING

import click

from hopscope.words import counted, duration

if TYPE_CHECKING:
    from rich.progress import TaskID

    from hopscope.problem.retrieval import RetrievalProblem
    from hopscope.training.recipe import Setup
    from hopscope.training.trainer import Progress

SECONDS_BETWEEN_LINES = 30.0


def for_people() -> bool:
    """Whether standard error reaches a person's terminal."""
    return sys.stderr.isatty()


@dataclass
class _Task:
    """A piece of work: `done` of `total` units; `first` were done when it was `began`, in monotonic seconds."""

    unit: str
    began: float
    first: float
    done: float
    total: float
    note: str = ""

    def state(self) -> str:
        """How far it is, its rate and the time left: `640 of 3200 steps, 2.4 steps/s, 18 min left`."""
        seconds = time.monotonic() - self.began
        rate = (self.done - self.first) / seconds if seconds > 0 else 0.0
        share = self.unit == "%"
        parts = [f"{self.done:.0f}%" if share else f"{self.done:g} of {self.total:g} {self.unit}"]
        if rate > 0:
            speed = f"{rate:.3g}" if rate < 1000 else f"{rate:.0f}"
            parts += [] if share else [f"{speed} {self.unit}/s"]
            parts.append(f"{duration((self.total - self.done) / rate)} left")
        return ", ".join(parts)


class Display:
    """What is being done, how far it is and what is left, while the context lasts."""

    def __init__(self) -> None:
        self._tasks: dict[str, _Task] = {}
        self._ids: dict[str, TaskID] = {}
        self._over = Event()
        self._lines = Thread(target=self._say_now_and_then, daemon=True)
        self._bars = None
        if for_people():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            texts = [TextColumn(f"{{task.{name}}}", markup=False) for name in ("description", "fields[state]")]
            columns = (texts[0], BarColumn(bar_width=24), texts[1], TimeElapsedColumn())
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
            state = f"{task.state()}; {note}" if note else task.state()
            self._bars.update(self._ids[name], completed=done, total=total, state=state)

    def finish(self, name: str) -> None:
        """Take a piece of work away that is done."""
        if self._tasks.pop(name, None) is not None and self._bars is not None:
            self._bars.remove_task(self._ids.pop(name))

    def say(self, line: str) -> None:
        """Print a line, above the bars if there are any."""
        if self._bars is not None:
            self._bars.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            click.echo(line, err=True)

    def log(self, line: str) -> None:
        """Print a line that bars have no need of."""
        if self._bars is None:
            self.say(line)

    def _say_now_and_then(self) -> None:
        while not self._over.wait(SECONDS_BETWEEN_LINES):
            for name, task in self._tasks.copy().items():
                self.say(f"{name}: {task.state()}" + (f"; {task.note}" if task.note else ""))


@contextmanager
def training_display(setup: Setup) -> Iterator[Callable[[Progress], None]]:
    """Progress of one run; gives the function that is called with it."""
    name = f"{len(setup.seeds)} x {setup.recipe.layers} layers, {setup.problem.named}"
    with Display() as display:

        def show(progress: Progress) -> None:
            losses = losses_by_hop(setup.problem, progress.partial_losses)
            display.update(name, progress.step, progress.steps, "steps", losses)

        yield show


@contextmanager
def runs_display(setups: Sequence[Setup]) -> Iterator[Callable[[dict[str, Progress]], None]]:
    """Progress of many runs, all together and each that is under way; gives the function that is called with it."""
    by_name = {setup.name: setup for setup in setups}
    total = sum(setup.work for setup in setups)
    ended: set[str] | None = None
    with Display() as display:

        def watch(progress: dict[str, Progress]) -> None:
            nonlocal ended
            now = {name for name, run in progress.items() if run.ended}
            for name in now - (now if ended is None else ended):  # what was finished before is not mentioned
                display.finish(name)
                display.log(f"{name} is finished, {len(now)} of {counted(len(progress), 'run')}")
            ended = now
            done = sum(by_name[name].work * run.step / run.steps for name, run in progress.items())
            display.update("training", 100 * done / total, 100, "%", f"{len(now)} of {counted(len(progress), 'run')}")
            for name, run in progress.items():
                if name not in now and run.step:
                    note = losses_by_hop(by_name[name].problem, run.partial_losses)
                    display.update(name, run.step, run.steps, "steps", note)

        yield watch


@contextmanager
def jobs_display(what: str, jobs: int) -> Iterator[Callable[[int], None]]:
    """Progress of jobs of unknown length; gives the function that is called with how many are done."""
    with Display() as display:
        yield lambda done: display.update(what, done, jobs, "jobs")


@contextmanager
def stages_display() -> Iterator[Callable[[str, int, int], None]]:
    """Progress of a search; gives the function that is called as each stage begins, with stages done and in all."""
    began, under_way = 0.0, ""
    with Display() as display:

        def end_stage() -> None:
            if under_way:
                display.log(f"{under_way}: {time.monotonic() - began:.1f} s")

        def watch(stage: str, done: int, stages: int) -> None:
            nonlocal began, under_way
            end_stage()
            place = f" ({min(done + 1, stages)} of {stages})" if stages > 1 else ""
            began, under_way = time.monotonic(), f"{stage}{place}"
            display.update("circuit", done, stages, "stages", stage)

        yield watch
        end_stage()


def losses_by_hop(problem: RetrievalProblem, partial_losses: Sequence[Sequence[float | None]]) -> str:
    """Mean losses over the models that have not diverged, hop by hop: `x1 0.012  x2 0.754`."""
    shown = []
    for symbol, losses in zip(problem.target_symbols, zip(*partial_losses, strict=True), strict=False):
        known = [loss for loss in losses if loss is not None and math.isfinite(loss)]
        shown.append(f"{symbol} {sum(known) / len(known):.3f}" if known else f"{symbol} diverged")
    return "  ".join(shown)
