"""Progress on a terminal: rates, time left, losses by hop. In a log lines now and then."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import click
from rich import progress as bars
from rich.console import Console

from hopscope.cli._common import for_people
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.engine import Engine
from hopscope.training.metrics import learned_below
from hopscope.training.progress import Progress
from hopscope.training.setup import Setup
from hopscope.words import duration

CROWDED = 0.75
"""A training thread that is on its core for less than this share of the time is sharing it with other work."""

_SECONDS_BEFORE_JUDGING = 20.0

_SECONDS_BETWEEN_LINES = 60.0
"""In a log; a hop that is learned has a line at once."""


def crowded(progress: Progress, engine: Engine, seconds: float) -> str | None:
    """A warning for a run whose threads wait for one another since other work is on their cores; None without need.

    When one of two threads is held up, both stand still: beside other work, a run on several threads can be ten times
    slower than on one.

    Args:
        progress: how far the run is.
        engine: the engine that it runs on.
        seconds: seconds since it began or resumed.
    """
    share = progress.core_share
    alone = engine.threads == 1 or not engine.device.startswith("cpu")
    if alone or share is None or share >= CROWDED or seconds < _SECONDS_BEFORE_JUDGING:
        return None
    return (
        f"other work is on the cores: this run's {engine.threads} threads get {share:.0%} of them and wait for one "
        f"another ({progress.steps_per_second:.2g} steps/s); one thread alone may be several times faster: begin anew "
        "with --threads 1, or leave the cores to this run"
    )


@contextmanager
def training_bar(setup: Setup, engine: Engine) -> Iterator[Callable[[Progress], None]]:
    """A bar for one run, or lines in a log; gives the function that moves it, which warns once if other work holds the
    run up."""
    with _bar(setup) if for_people() else _lines(setup) as (show, say):
        began, said = time.monotonic(), False

        def move(progress: Progress) -> None:
            nonlocal said
            warning = crowded(progress, engine, time.monotonic() - began)
            if warning is not None and not said:
                say(f"hopscope: {warning}")
                said = True
            show(progress)

        yield move


@contextmanager
def _bar(setup: Setup) -> Iterator[tuple[Callable[[Progress], None], Callable[[str], None]]]:
    """A bar on a terminal; gives the function that moves it, and one that says a line above it."""
    what = f"{len(setup.seeds)} x {setup.recipe.layers} layers, {setup.problem.named}"
    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(bar_width=24),
        bars.TextColumn("{task.completed}/{task.total} steps"),
        bars.TextColumn("{task.fields[rate]}"),
        bars.TimeRemainingColumn(compact=True),
        bars.TextColumn("{task.fields[losses]}"),
    )
    with bars.Progress(*columns, console=Console(stderr=True)) as shown:
        task = shown.add_task(what, total=setup.recipe.steps, rate="", losses="")

        def show(progress: Progress) -> None:
            shown.update(
                task,
                completed=progress.step,
                total=progress.steps,
                rate=f"{progress.steps_per_second or 0.0:.1f} steps/s",
                losses=losses_by_hop(setup.problem, progress.partial_losses),
            )

        yield show, lambda line: shown.console.print(line, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _lines(setup: Setup) -> Iterator[tuple[Callable[[Progress], None], Callable[[str], None]]]:
    """A log's lines of a run: one a minute, and one whenever all its models have learned one hop more."""
    last, told = time.monotonic(), set[str]()

    def say(line: str) -> None:
        click.echo(line, err=True)

    def show(progress: Progress) -> None:
        nonlocal last
        learned = _learned(setup.problem, progress.partial_losses)
        if told.issuperset(learned) and time.monotonic() - last < _SECONDS_BETWEEN_LINES:
            return
        told.update(learned)
        last = time.monotonic()
        say(_line(setup, progress, learned))

    yield show, say


def _line(setup: Setup, progress: Progress, learned: Sequence[str]) -> str:
    """The progress of a run in a line: `step 640 of 3200: 2.4 steps/s, 18 min left; x1 0.021  x2 0.513; learned x1`."""
    at, rate = f"step {progress.step} of {progress.steps}", progress.steps_per_second
    if rate:
        at += f": {rate:.3g} steps/s, {duration((progress.steps - progress.step) / rate)} left"
    parts = [at, losses_by_hop(setup.problem, progress.partial_losses)]
    if learned:
        parts.append(f"{'all ' if len(setup.seeds) > 1 else ''}learned {', '.join(learned)}")
    return "; ".join(parts)


def _learned(problem: RetrievalProblem, partial_losses: Sequence[Sequence[float | None]]) -> list[str]:
    """The symbols asked for that every model has learned to look up."""
    enough = learned_below(problem.chains)
    by_hop = zip(problem.target_symbols, zip(*partial_losses, strict=True), strict=True)
    return [symbol for symbol, losses in by_hop if all(loss is not None and loss < enough for loss in losses)]


@contextmanager
def stage_lines() -> Iterator[Callable[[str, int, int], None]]:
    """For a log, a plain line for each stage that is finished; gives what is told of each as it begins."""
    began, under_way = time.monotonic(), ""

    def finish() -> None:
        if under_way:
            click.echo(f"{under_way}: {time.monotonic() - began:.1f} s", err=True)

    def begin(stage: str, done: int, stages: int) -> None:
        nonlocal began, under_way
        finish()
        place = f" ({min(done + 1, stages)} of {stages})" if stages > 1 else ""
        began, under_way = time.monotonic(), f"{stage}{place}"

    yield begin
    finish()


def losses_by_hop(problem: RetrievalProblem, partial_losses: Sequence[Sequence[float | None]]) -> str:
    """Mean losses over the models that have not diverged, look-up by look-up: `x1 0.012  x2 0.754`."""
    shown = []
    for symbol, losses in zip(problem.target_symbols, zip(*partial_losses, strict=True), strict=True):
        known = [loss for loss in losses if loss is not None and math.isfinite(loss)]
        shown.append(f"{symbol} {sum(known) / len(known):.3f}" if known else f"{symbol} diverged")
    return "  ".join(shown)
