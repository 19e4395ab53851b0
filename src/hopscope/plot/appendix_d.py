"""Appendix D: every path of a circuit over time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hopscope.emergence.history import Emergence
from hopscope.plot.figure_7 import path_name
from hopscope.plot.style import BLUE, COLUMN, INK, PAGE, hop_look, house, new_figure, thousands

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def appendix_d(emergence: Emergence) -> Figure:
    """A panel for each path: its mean attention, how often its key comes first, and what its absence costs."""
    columns = min(4, len(emergence.paths))
    rows = math.ceil(len(emergence.paths) / columns)
    costliest = max(1.0, *(max(path.change) for path in emergence.paths))
    with house():
        figure = new_figure(COLUMN if columns == 1 else PAGE, 1.45 * rows + 0.6)
        panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for axes, path in zip(panels.flat, emergence.paths, strict=False):
            color = hop_look(path.hop).color
            axes.axhline(0.5, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
            axes.plot(emergence.steps, path.attention, color=color, linewidth=1.5, zorder=3)
            axes.plot(emergence.steps, path.foremost, color=color, linewidth=0.9, linestyle=":", zorder=2)
            axes.plot(emergence.steps, path.change, color=INK, linewidth=0.8, zorder=2)
            if path.crossing.step is not None:
                axes.plot(
                    [path.crossing.step], [0.5], color=color, marker="o", markersize=4.5, markeredgecolor="white",
                    markeredgewidth=0.6, zorder=4,
                )  # fmt: skip
            axes.set_title(path_name(path, emergence), fontsize=7.5)
            axes.set_ylim(min(0.0, *path.change) - 0.03, 1.05 * costliest)
            thousands(axes)
        for axes in panels.flat[len(emergence.paths) :]:
            axes.set_visible(False)
        for column in range(columns):
            lowest = panels[(len(emergence.paths) - 1 - column) // columns][column]
            lowest.set_xlabel("step")
            lowest.tick_params(labelbottom=True)
        _legend(figure)
    return figure


def _legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    figure.legend(
        handles=[
            Line2D([], [], color=BLUE, linewidth=1.5, label="mean attention (colour: hop)"),
            Line2D([], [], color=BLUE, linewidth=0.9, linestyle=":", label="share of queries where it is the largest"),
            Line2D([], [], color=INK, linewidth=0.8, label="rise of the loss without it"),
        ],
        loc="outside upper left",
        ncols=3,
    )
