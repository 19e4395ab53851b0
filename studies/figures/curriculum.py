"""The figure of the curriculum study: what was asked for against what was learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

import hopscope as hs
from hopscope.plot import BLUE, COLUMN, INK, ORANGE, VERMILION, house, new_figure
from hopscope.statistics import clopper_pearson
from studies.curriculum import judge
from studies.tools.conditions import Condition, Conditions
from studies.tools.drawing import n_label
from studies.tools.inference import survival_median
from studies.tools.judgements import StudyVerdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LOOKS: dict[StudyVerdict, tuple[str, str]] = {
    "confirmed": (BLUE, "enough"),
    "refuted": (VERMILION, "not enough"),
    "inconclusive": (ORANGE, "inconclusive"),
}


def curriculum(found: Conditions) -> Figure:
    """Draw a row for each condition. Left: the number of seeds that learned each hop asked for. Right: the share of
    seeds that learned the last hop, with its 95% interval, and the median step at which they learned it.

    Raises:
        InputError: no condition has a finished seed.
    """
    rows = [
        (condition, judgement.verdict)
        for condition, judgement in zip(found.conditions, judge(found), strict=True)
        if condition.seeds
    ]
    if not rows:
        raise hs.InputError("there is nothing to draw: no seed is finished")
    with house():
        figure = new_figure(COLUMN * 2, 0.9 + 0.16 * len(rows))
        axes, matrix = figure.subplots(1, 2, sharey=True, width_ratios=(4, 5))[::-1]
        _draw_counts(matrix, [condition for condition, _ in rows])
        for row, (condition, verdict) in enumerate(rows):
            learned, n, color = len(condition.steps(condition.last)), len(condition.seeds), _LOOKS[verdict][0]
            axes.plot(clopper_pearson(learned, n), [row, row], color=color, linewidth=1)
            axes.plot(learned / n, row, "o", color=color, markersize=3.5, clip_on=False)
            middle = survival_median(condition.times(condition.last), condition.budget)[0]
            step = "-" if middle is None else f"{middle:.0f}"
            axes.annotate(step, (1.02, row), xycoords=("axes fraction", "data"), va="center", fontsize=6, color=INK)
        for color, label in _LOOKS.values():
            axes.plot([], [], "o", color=color, label=label)
        names = [condition.name.replace("/", ": ", 1).replace("/", ", ").replace("-", " ") for condition, _ in rows]
        axes.tick_params(labelleft=False)
        matrix.set_yticks(range(len(rows)), names, fontsize=6.5)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(-0.02, 1.02)
        axes.axvline(0.5, color=INK, linewidth=0.7, linestyle=":")
        matrix.set_title(f"{n_label(len(condition.seeds) for condition, _ in rows)} seeds each")
        axes.set_xlabel("last hop: share, median step")
        figure.legend(loc="outside upper left", ncols=3)
    return figure


def _draw_counts(axes: Axes, conditions: Sequence[Condition]) -> None:
    """Draw how many seeds of each condition learned each hop; a hop that is not asked for has no cell."""
    most = max(condition.last for condition in conditions)
    shares = np.full((len(conditions), most), np.nan)
    for row, condition in enumerate(conditions):
        for hop in condition.hops:
            learned, n = len(condition.steps(hop)), len(condition.seeds)
            shares[row, hop - 1] = learned / n
            color = "white" if learned / n > 0.6 else INK
            axes.text(hop - 1, row, f"{learned}/{n}", ha="center", va="center", fontsize=5.5, color=color)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1.2, aspect="auto")
    axes.set_xticks(range(most), [f"x{hop}" for hop in range(1, most + 1)])
    axes.set_xlabel("learned (where asked for)")
    axes.grid(visible=False)
