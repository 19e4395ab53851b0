"""Progress on a terminal: rates, time left, losses by hop. In a log a line for each stage that is finished."""

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
from hopscope.training.progress import Progress
from hopscope.training.setup import Setup

CROWDED = 0.75
"""A training thread that is on its core for less than this share of the time is sharing it with other work."""

_SECONDS_BEFORE_JUDGING = 20.0


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
    """A bar for one run; gives the function that moves it, which warns once if other work holds the run up."""
    what = f"{len(setup.seeds)} x {setup.recipe.layers} layers, {setup.problem.named}"
    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(bar_width=24),
        bars.TextColumn("{task.completed}/{task.total} steps"),
        bars.TextColumn("{task.fields[rate]}"),
        bars.TimeRemainingColumn(compact=True),
        bars.TextColumn("{task.fields[losses]}"),
    )
    with bars.Progress(*columns, console=Console(stderr=True), disable=not for_people()) as shown:
        task = shown.add_task(what, total=setup.recipe.steps, rate="", losses="")
        began, said = time.monotonic(), False

        def move(progress: Progress) -> None:
            nonlocal said
            warning = crowded(progress, engine, time.monotonic() - began)
            if warning is not None and not said:
                shown.console.print(f"hopscope: {warning}", markup=False, highlight=False, soft_wrap=True)
                said = True
            shown.update(
                task,
                completed=progress.step,
                total=progress.steps,
                rate=f"{progress.steps_per_second or 0.0:.1f} steps/s",
                losses=losses_by_hop(setup.problem, progress.partial_losses),
            )

        yield move


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
