"""The figure of the study `unsaid`: when each seed learns x1 and all hops, by reading of transformer D's recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hopscope.plot import BLUE, FAINT, INK, PAGE, VERMILION, house, new_figure, thousands
from studies.tools.conditions import Condition, Conditions
from studies.unsaid import FULL, HALF_THE_SHARE, READINGS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TITLES = {name.replace(" ", "-"): name.replace("/", ", ") for name in READINGS}


def unsaid(found: Conditions) -> Figure:
    """Draw a row for each reading, with a line for each seed from x1 to all hops: the stand-in left, full size right.

    An arrow means never within the budget. The vertical lines are the end of the paper's plateau and half of that step.
    The study's rule asks that x1 is not learned before half of that step.

    Raises:
        InputError: no condition has a finished seed.
    """
    begun = found.begun
    there = [condition.name.removeprefix(FULL) for condition in begun]
    names = [name for name in dict.fromkeys((*_TITLES, *there)) if name in there]
    with house():
        figure = new_figure(PAGE, 1.1 + 0.17 * len(names))
        small, full = figure.subplots(1, 2, sharey=True)
        budget = max(condition.budget for condition in begun)
        for axes, whole, title in ((small, False, "a quarter of D's width"), (full, True, "D's full size")):
            for condition in (begun_one for begun_one in begun if begun_one.name.startswith(FULL) == whole):
                _row(axes, names.index(condition.name.removeprefix(FULL)), condition)
            for share, dash in ((HALF_THE_SHARE, ":"), (2 * HALF_THE_SHARE, "--")):
                axes.axvline(share * budget, color=INK, linewidth=0.7, linestyle=dash, zorder=0)
            axes.set_title(title, fontsize=7.5)
            axes.set_xlim(0, 1.04 * budget)
            axes.set_xlabel("step")
            thousands(axes)
        small.set_yticks(range(len(names)), [_TITLES.get(name, name) for name in names], fontsize=6.5)
        small.set_ylim(len(names) - 0.5, -0.5)
        small.plot([], [], "o", color=BLUE, markersize=3.5, label="x1 (the plateau ends)")
        small.plot([], [], "o", color=VERMILION, markersize=3.5, label="all hops")
        small.plot([], [], color=INK, linewidth=0.7, linestyle=":", label="half the paper's plateau")
        small.plot([], [], color=INK, linewidth=0.7, linestyle="--", label="the paper's")
        figure.legend(loc="outside upper left", ncols=4)
    return figure


def _row(axes: Axes, row: int, condition: Condition) -> None:
    lanes = len(condition.seeds)
    for lane, (first, every) in enumerate(zip(condition.times(condition.hops[0]), condition.everything(), strict=True)):
        height = row + (lane - (lanes - 1) / 2) * 0.26
        ends = [condition.budget if step is None else step for step in (first, every)]
        axes.plot(ends, [height, height], color=FAINT, linewidth=1.2, zorder=1)
        for step, color in ((every, VERMILION), (first, BLUE)):
            if step is None:
                axes.plot(condition.budget, height, marker=">", color=color, markersize=3.5, clip_on=False)
            else:
                axes.plot(step, height, marker="o", color=color, markersize=3)
