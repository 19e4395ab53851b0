"""Progress of many runs on a terminal, for the verbs that train whole studies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from hopscope.cli._common import for_people
from hopscope.cli._progress import losses_by_hop
from hopscope.training.bundles import Bundle, Standing


@contextmanager
def study_bars(bundles: Sequence[Bundle]) -> Iterator[Callable[[dict[str, Standing]], None]]:
    """A bar for all the work and one for each run under way; gives the function that moves them."""
    columns = (
        TextColumn("{task.description:<16}"),
        BarColumn(bar_width=30),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    total = sum(bundle.work for bundle in bundles)
    by_name = {bundle.name: bundle for bundle in bundles}
    with Progress(*columns, console=Console(stderr=True), disable=not for_people()) as bars:
        everything = bars.add_task("training", total=total, note="")
        tasks = {
            name: bars.add_task(f"  {name}", total=bundle.recipe.steps, note="", visible=False)
            for name, bundle in by_name.items()
        }

        def move(standings: dict[str, Standing]) -> None:
            done = 0.0
            finished = 0
            for name, standing in standings.items():
                bundle = by_name[name]
                done += bundle.work * standing.step / standing.steps
                finished += standing.step == standing.steps
                under_way = 0 < standing.step < standing.steps
                bars.update(
                    tasks[name],
                    completed=standing.step,
                    visible=under_way,
                    note=_note(bundle, standing, bars.tasks[tasks[name]].speed),
                )
            bars.update(everything, completed=done, note=f"{finished} of {len(standings)} runs")

        yield move


def _note(bundle: Bundle, standing: Standing, speed: float | None) -> str:
    """Models, steps a second, and mean losses hop by hop."""
    models = f"{len(bundle.seeds)} model{'s' if len(bundle.seeds) > 1 else ''}"
    rate = f", {speed:.1f} steps/s" if speed else ""
    losses = losses_by_hop(bundle.problem, standing.partial_losses) if standing.partial_losses else ""
    return f"{models}{rate}  {losses}"


@contextmanager
def waiting(what: str) -> Iterator[Callable[[], None]]:
    """A clock for work of unknown length; gives the function that shows it is alive."""
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=30), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not for_people()) as bars:
        task = bars.add_task(what, total=None)
        yield lambda: bars.update(task)
