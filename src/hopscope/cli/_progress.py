"""Progress on a terminal: rates, time left, losses by hop. Silent where nobody watches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from hopscope.cli._common import for_people
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.trainer import Progress as Standing


@contextmanager
def training_bar(what: str, problem: RetrievalProblem, steps: int) -> Iterator[Callable[[Standing], None]]:
    """A bar for one run; gives the function that moves it."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.completed}/{task.total} steps"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[losses]}"),
    )
    with Progress(*columns, console=Console(stderr=True), disable=not for_people()) as bar:
        task = bar.add_task(what, total=steps, rate="", losses="")

        def move(standing: Standing) -> None:
            bar.update(
                task,
                completed=standing.step,
                rate=f"{standing.steps_per_second:.1f} steps/s",
                losses=losses_by_hop(problem, standing.partial_losses),
            )

        yield move


def losses_by_hop(problem: RetrievalProblem, partial_losses: Sequence[Sequence[float | None]]) -> str:
    """Mean over models, hop by hop: `x1 0.012  x2 0.754`; of those that have not diverged."""
    shown = []
    for hop, losses in zip(problem.target_hops, zip(*partial_losses, strict=True), strict=True):
        known = [loss for loss in losses if loss is not None and math.isfinite(loss)]
        shown.append(f"x{hop} {sum(known) / len(known):.3f}" if known else f"x{hop} diverged")
    return "  ".join(shown)
