"""Plot the loss of each hop over training: the order in which hops are learned (Section 7.2; Figure 6, right)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hopscope.errors import InputError
from hopscope.plot.style import BLUE, COLUMN, INK, PAGE, VERMILION, hop_label, hop_look, house, new_figure, thousands
from hopscope.training.metrics import Metrics
from hopscope.training.run import RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS = 240
"""The largest number of points in a line. Longer lines are drawn through means of neighbours, for a smaller file."""


@dataclass(frozen=True)
class Panel:
    """A panel with the partial losses of a run.

    Attributes:
        title: the title of the panel.
        metrics: the metrics of a run, with all rows; a mark shows the first drawn row at which a hop is learned.
        every: lines are drawn through the rows at multiples of `every` steps. The last steps have one row each, which
            would smear the lines.
        model: the number of the only model to draw; None for all models.
    """

    title: str
    metrics: Metrics
    every: int = 1
    model: int | None = None

    def __post_init__(self) -> None:
        if not len(self.lines):
            raise InputError(f"the metrics of {self.title!r} have no row at a multiple of {self.every} steps")

    @property
    def lines(self) -> Metrics:
        """The rows that lines are drawn through."""
        return self.metrics.every(self.every)


def training(*of: Panel | RunFolder) -> Figure:
    """Plot partial losses over training: a panel per run, a line per seed and hop, a mark where it falls below 0.5.

    Raises:
        InputError: no run is given, an argument is not a run, or a run has no metrics yet.
    """
    if others := [given for given in of if not isinstance(given, Panel | RunFolder)]:
        raise InputError(f"a figure of training takes runs, as hs.Run('runs/first'), got {others[0]!r}")
    panels = [
        run if isinstance(run, Panel)
        else Panel(f"{run.path.name}: {run.recipe.layers} layers", run.metrics, run.recipe.log_every)
        for run in of
    ]  # fmt: skip
    if not panels:
        raise InputError("a figure of training needs at least one panel, got none")
    columns = 1 if len(panels) == 1 else 2 if len(panels) in (2, 4) else 3 if len(panels) < 7 else 4
    rows = math.ceil(len(panels) / columns)
    with house():
        width = COLUMN if columns == 1 else PAGE
        figure = new_figure(width, 0.5 + (2.0 if columns < 3 else 1.6) * rows + (0.4 if rows == 1 else 0))
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for axes, panel in zip(grid.flat, panels, strict=False):
            draw_panel(axes, panel)
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
        for axes in grid[:, 0]:
            axes.set_ylabel("partial loss")
        grid[0][0].set_xlim(0, max(int(panel.lines.steps[-1]) for panel in panels))
        for lowest in grid.flat[len(panels) - columns : len(panels)]:  # of each column
            lowest.set_xlabel("step")
            lowest.tick_params(labelbottom=True)
        _legend(figure, panels)
    return figure


def figure_6(metrics: Metrics, model: int = 0) -> Figure:
    """Plot a model's training and validation loss (left), and its validation loss by hop with marks at 0.5 (right).

    Raises:
        InputError: the metrics have no rows of this model.
    """
    if not len(metrics) or not 0 <= model < len(metrics.seeds):
        raise InputError(f"the metrics have no row of model {model} yet")
    steps = metrics.steps.tolist()
    with house():
        figure = new_figure(PAGE, 2.6)
        left, right = figure.subplots(1, 2, sharex=True)
        lines = ((metrics.train_loss, "training", VERMILION), (metrics.validation_loss, "validation", BLUE))
        for losses, label, color in lines:
            left.plot(*thinned(steps, losses[:, model].tolist()), color=color, linewidth=1.1, label=label)
        left.set_title("Loss")
        left.set_ylim(0, 1.05)
        left.set_ylabel("mean squared error")
        left.legend(loc="upper right")
        draw_panel(right, Panel("Validation loss by hop", metrics, model=model))
        for hop in metrics.hops:
            look = hop_look(hop)
            right.plot([], [], color=look.color, marker=look.marker, linestyle=look.dash, label=hop_label(hop))
        right.legend(loc="upper right")
        for axes in (left, right):
            axes.set_xlim(0, steps[-1])
            axes.set_xlabel("step")
            thousands(axes)
    return figure


def draw_panel(axes: Axes, panel: Panel) -> None:
    """Draw a line for each seed and hop, with a mark where the hop is learned."""
    lines, level = panel.lines, panel.metrics.learned
    learned = lines.first_below()
    axes.axhline(level, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    for model in range(len(lines.seeds)) if panel.model is None else [panel.model]:
        for place, hop in enumerate(lines.hops):
            look = hop_look(hop)
            steps, losses = thinned(lines.steps.tolist(), lines.partial_losses[:, model, place].tolist())
            axes.plot(
                steps, losses, color=look.color, linestyle=look.dash, linewidth=1.0, alpha=0.85,
                label=f"_seed {lines.seeds[model]} hop {hop}", zorder=2,
            )  # fmt: skip
            if (step := learned[model][place]) is not None:
                axes.plot(
                    [step], [level], color=look.color, marker=look.marker, markersize=5, linestyle="none",
                    markeredgecolor="white", markeredgewidth=0.7, label=f"_crossing hop {hop}", zorder=4,
                )  # fmt: skip
    axes.set_title(panel.title)
    axes.set_ylim(0, 1.05)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    thousands(axes)


def _legend(figure: Figure, panels: Sequence[Panel]) -> None:
    from matplotlib.lines import Line2D

    hops = sorted({hop for panel in panels for hop in panel.metrics.hops})
    looks = [(hop_label(hop), hop_look(hop)) for hop in hops]
    handles = [
        Line2D([], [], color=look.color, marker=look.marker, linestyle=look.dash, label=label,
               markeredgecolor="white", markeredgewidth=0.5)
        for label, look in looks
    ]  # fmt: skip
    levels = " or ".join(f"{level:.3g}" for level in sorted({panel.metrics.learned for panel in panels}))
    handles.append(Line2D([], [], color=INK, linewidth=0.8, linestyle=(0, (4, 3)), label=f"learned below {levels}"))
    figure.legend(handles=handles, loc="outside upper left", ncols=min(len(handles), 4 if len(panels) == 1 else 8))


def thinned(steps: Sequence[float], losses: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return at most `POINTS` points, each the mean of the same number of neighbours (except the last)."""
    width = math.ceil(len(steps) / POINTS)
    blocks = range(0, len(steps), width)
    return (
        [sum(steps[at : at + width]) / len(steps[at : at + width]) for at in blocks],
        [sum(losses[at : at + width]) / len(losses[at : at + width]) for at in blocks],
    )
