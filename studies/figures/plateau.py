"""The figure of the plateau study: when the plateau ends and all hops are learned, for each change of the recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hopscope.plot import BLUE, INK, PAGE, VERMILION, house, new_figure
from studies.tools.conditions import Condition, Conditions
from studies.tools.inference import Times, survival_median

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plateau(found: Conditions) -> Figure:
    """Draw a row for each condition: the median steps at which x1 and all hops are learned, and how many seeds learned.

    Medians and 95% intervals are by Kaplan-Meier. An arrow at the end of an interval means that this end is not within
    the budget; without a dot, the median is not either. The bands are the intervals of the first condition, which is
    the unchanged recipe.

    Raises:
        InputError: no condition has a finished seed.
    """
    from matplotlib.ticker import LogLocator, NullLocator, ScalarFormatter

    conditions = found.begun
    with house():
        figure = new_figure(PAGE, 0.9 + 0.16 * len(conditions))
        axes = figure.subplots()
        for row, condition in enumerate(conditions):
            _row(axes, row, condition)
        for label, color in (("x1 (the plateau ends)", BLUE), ("all hops", VERMILION)):
            axes.plot([], [], "o", color=color, label=label)
        axes.annotate("all hops", (1.01, 1), xycoords="axes fraction", va="bottom", fontsize=6, color=INK)
        axes.set_yticks(
            range(len(conditions)),
            [condition.name.replace("/", ": ").replace("-", " ") for condition in conditions],
            fontsize=6.5,
        )
        axes.set_ylim(len(conditions) - 0.5, -0.5)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel("step (median over seeds)")
        axes.grid(axis="x")
        figure.legend(loc="outside upper left", ncols=2)
    return figure


def _row(axes: Axes, row: int, condition: Condition) -> None:
    every = condition.everything()
    _median(axes, row - 0.15, condition.times(condition.hops[0]), condition.budget, BLUE, row == 0)
    _median(axes, row + 0.15, every, condition.budget, VERMILION, row == 0)
    learned = sum(step is not None for step in every)
    axes.annotate(f"{learned}/{len(every)}", (1.01, row), xycoords=("axes fraction", "data"), va="center",
                  fontsize=6, color=INK)  # fmt: skip


def _median(axes: Axes, height: float, times: Times, budget: int, color: str, reference: bool) -> None:
    middle, low, high = survival_median(times, budget)
    ends = (budget if low is None else low, budget if high is None else high)
    axes.plot(ends, [height, height], color=color, linewidth=0.9)
    if high is None:
        axes.plot(budget, height, marker=">", color=color, markersize=3.5, clip_on=False)
    if middle is not None:
        axes.plot(middle, height, marker="o", color=color, markersize=3)
    if reference and low is not None:
        axes.axvspan(*ends, color=color, alpha=0.08, linewidth=0)
