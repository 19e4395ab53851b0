"""Progress on a terminal: rates, time left, losses by hop. Silent where nobody watches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich import progress as bars
from rich.console import Console

from hopscope.cli._common import for_people
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.progress import Progress
from hopscope.training.setup import Setup


@contextmanager
def training_bar(setup: Setup) -> Iterator[Callable[[Progress], None]]:
    """A bar for one run; gives the function that moves it."""
    what = f"{len(setup.seeds)} x {setup.recipe.layers} layers, D = {setup.problem.hops}"
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

        def move(progress: Progress) -> None:
            shown.update(
                task,
                completed=progress.step,
                total=progress.steps,
                rate=f"{progress.steps_per_second or 0.0:.1f} steps/s",
                losses=losses_by_hop(setup.problem, progress.partial_losses),
            )

        yield move


def losses_by_hop(problem: RetrievalProblem, partial_losses: Sequence[Sequence[float | None]]) -> str:
    """Mean over models, hop by hop: `x1 0.012  x2 0.754`; of those that have not diverged."""
    shown = []
    for hop, losses in zip(problem.target_hops, zip(*partial_losses, strict=True), strict=True):
        known = [loss for loss in losses if loss is not None and math.isfinite(loss)]
        shown.append(f"x{hop} {sum(known) / len(known):.3f}" if known else f"x{hop} diverged")
    return "  ".join(shown)
