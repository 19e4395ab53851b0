"""Survival curves of the studies that train conditions: the share of seeds that have not learned a hop, by step."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

from hopscope.plot import COLUMN, PAGE, hop_label, hop_look, house, new_figure, thousands
from studies.tools.conditions import Condition, Conditions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_A_ROW = 4
"""The maximum number of panels in a row."""

_A_LINE = 24
"""The maximum number of characters in a line of a panel's title."""


def survival(found: Conditions) -> Figure:
    """Draw the share of seeds that have not learned a hop yet, with a panel for each condition and a line for each hop.

    Every seed is followed until it has learned every hop or its budget is spent, so the counts themselves are drawn and
    no estimate is needed. Lines are moved slightly apart, because the lines of hops that no seed learned would hide one
    another.

    Raises:
        InputError: no condition has a finished seed.
    """
    conditions = found.begun
    with house():
        across = min(_A_ROW, len(conditions))
        rows = -(-len(conditions) // across)
        figure = new_figure(max(COLUMN, PAGE * across / _A_ROW), 0.4 + 1.9 * rows)
        panels = figure.subplots(rows, across, sharey=True, squeeze=False)
        for axes, condition in zip(panels.flat, conditions, strict=False):
            _panel(figure, axes, condition)
        for axes in panels.flat[len(conditions) :]:
            axes.remove()
        for axes in panels[:, 0]:
            axes.set_ylabel("share that has not learned")
        longest = max(range(len(conditions)), key=lambda place: len(conditions[place].hops))
        handles, labels = panels.flat[longest].get_legend_handles_labels()
        apart = "lines moved apart to be seen" if len(labels) > 1 else None
        figure.legend(
            handles, labels, ncols=6, title=apart, title_fontsize=7, loc="outside upper left", alignment="left"
        )
    return figure


def _panel(figure: Figure, axes: Axes, condition: Condition) -> None:
    from matplotlib.transforms import offset_copy

    for place, hop in enumerate(condition.hops):
        apart = 1.6 * (place - (len(condition.hops) - 1) / 2)
        steps, n = condition.steps(hop), len(condition.seeds)
        look = hop_look(hop)
        left = [1 - number / n for number in range(len(steps) + 1)]
        axes.plot(
            [0, *steps, condition.budget],
            [*left, left[-1]],
            drawstyle="steps-post",
            color=look.color,
            linestyle=look.dash,
            label=hop_label(hop),
            transform=offset_copy(axes.transData, figure, y=apart, units="points"),
        )
    name = f"{condition.name.replace('-', ' ').replace('/', ', ')} (n = {len(condition.seeds)})".replace(
        "n = ", "n\xa0=\xa0"
    )
    axes.set_title(fill(name, _A_LINE), fontsize=7.5)
    axes.set_xlabel("step")
    axes.set_xlim(0, condition.budget)
    axes.set_ylim(-0.04, 1.04)
    thousands(axes)
