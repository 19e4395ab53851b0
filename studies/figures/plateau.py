"""When the plateau ends and when all hops are learned, a row for each change of the recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hopscope.plot import BLUE, INK, PAGE, VERMILION, house, new_figure
from studies.tools.arms import ArmLearned, Arms
from studies.tools.inference import Times, survival_median

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plateau(found: Arms) -> Figure:
    """A row for each arm: median step of x1 and of all hops (Kaplan-Meier, 95% intervals), and how many seeds learned.

    An arrow means never within the budget: at an interval's end, and in place of the median where there is no dot. The
    bands are the intervals of the unchanged recipe, the first arm.

    Raises:
        InputError: no arm has a finished seed.
    """
    from matplotlib.ticker import LogLocator, NullLocator, ScalarFormatter

    arms = found.begun
    with house():
        figure = new_figure(PAGE, 0.9 + 0.16 * len(arms))
        axes = figure.subplots()
        for row, arm in enumerate(arms):
            _row(axes, row, arm)
        for what, color in (("x1 (the plateau ends)", BLUE), ("all hops", VERMILION)):
            axes.plot([], [], "o", color=color, label=what)
        axes.annotate("all hops", (1.01, 1), xycoords="axes fraction", va="bottom", fontsize=6, color=INK)
        axes.set_yticks(range(len(arms)), [arm.name.replace("/", ": ").replace("-", " ") for arm in arms], fontsize=6.5)
        axes.set_ylim(len(arms) - 0.5, -0.5)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel("step (median over seeds)")
        axes.grid(axis="x")
        figure.legend(loc="outside upper left", ncols=2)
    return figure


def _row(axes: Axes, row: int, arm: ArmLearned) -> None:
    every = arm.everything()
    _median(axes, row - 0.15, arm.times(arm.hops[0]), arm.budget, BLUE, row == 0)
    _median(axes, row + 0.15, every, arm.budget, VERMILION, row == 0)
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
