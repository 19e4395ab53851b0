"""Progress: a bar on a terminal or in a notebook, and otherwise a line on standard error every 30 seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from html import escape
from importlib import import_module
from threading import Event, Thread
from typing import Any, TypeVar

import click

from hopscope.checks import check_type
from hopscope.words import duration

SECONDS_BETWEEN_LINES = 30.0
F = TypeVar("F", bound=Callable[..., None])


def for_people() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr.isatty()


class Display:
    """A context that shows the progress of the task `name`, counted in `unit`; it yields the method `update`."""

    def __init__(self, name: str, unit: str) -> None:
        self._name, self._unit, self._state = name, unit, ""
        self._began: tuple[float, float] | None = None
        self._over = Event()
        self._lines = Thread(target=self._say_regularly, daemon=True)
        self._bar = None
        self._output: Any = None
        if for_people():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            text = TextColumn("{task.description}: {task.fields[state]}", markup=False)
            self._bar = Progress(BarColumn(bar_width=24), text, TimeElapsedColumn(), console=Console(stderr=True))

    def __enter__(self) -> Callable[..., None]:
        if self._bar is None and "ipykernel" not in sys.modules:
            self._lines.start()
        return self.update

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._bar is not None:
            self._bar.stop()
        elif self._lines.is_alive():
            self._lines.join()

    def update(self, done: float, total: float, note: str = "") -> None:
        """Show the progress, its rate and the time left, such as `640 of 3200 steps, 2.4 steps/s, 18 min left`."""
        now = time.monotonic()
        began, first = self._began = self._began or (now, done)
        rate = (done - first) / (now - began) if now > began else 0.0
        parts = [f"{done:.0f}%" if self._unit == "%" else f"{done:g} of {total:g} {self._unit}"]
        if self._unit == "stages":  # no rate, since stages differ in length; no count after the last
            parts = parts if done < total else []
        elif rate > 0:
            parts += [] if self._unit == "%" else [f"{rate:.3g} {self._unit}/s"]
            parts.append(f"{duration((total - done) / rate)} left")
        self._state = "; ".join(filter(None, [", ".join(parts), note]))
        if self._bar is not None:
            self._bar.start()
            [task] = self._bar.task_ids or [self._bar.add_task(self._name, state="")]
            self._bar.update(task, completed=done, total=total, state=self._state)
        elif "ipykernel" in sys.modules:
            text = f"{self._name}: {self._state}"
            bar = f'<progress value="{done}" max="{total}"></progress> {escape(text)}'
            if self._output is None:
                self._output = import_module("IPython.display").display({}, raw=True, display_id=True)
            self._output.update({"text/plain": text, "text/html": bar}, raw=True)

    def _say_regularly(self) -> None:
        while not self._over.wait(SECONDS_BETWEEN_LINES):
            if self._state:
                click.echo(f"{self._name}: {self._state}", err=True)


@contextmanager
def stages_display() -> Iterator[Callable[[str, int, int], None]]:
    """Show the progress of a search; yields a function of the stage's name, the number of stages done and the total."""
    with Display("circuit", "stages") as update:
        yield lambda stage, done, stages: update(done, stages, stage)


@contextmanager
def reporting(progress: F | bool, display: AbstractContextManager[F]) -> Iterator[F]:
    """Yield the function that reports progress: the display's for True, a silent one for False, else `progress`."""
    check_type("progress", progress, bool | Callable, "True, False or a function")
    if progress is True:
        with display as show:
            yield show
    else:
        silent: Any = lambda *_: None
        yield progress or silent
