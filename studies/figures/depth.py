"""The figure of the depth study: the depth that training needs, and the depth that theory asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import hopscope as hs
from hopscope.plot import BLUE, COLUMN, INK, VERMILION, house, new_figure
from studies.depth import kind
from studies.tools.conditions import Condition, Conditions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def depth(found: Conditions) -> Figure:
    """Draw a panel for each mask and number of heads, with a disc for each D and depth.

    The filled share of a disc is the share of seeds that learned all hops. The solid line is the theory's exact
    minimum, and the dotted line is Theorem 1. A disc below the solid line is red if a seed learned all hops.

    Raises:
        InputError: no condition has a finished seed.
    """
    conditions = found.begun
    kinds = list(dict.fromkeys(map(kind, conditions)))
    with house():
        across = min(2, len(kinds))
        rows = -(-len(kinds) // across)
        figure = new_figure(COLUMN * across, 0.3 + 2.3 * rows)
        panels = figure.subplots(rows, across, sharex=True, sharey=True, squeeze=False)
        for axes, series in zip(panels.flat, kinds, strict=False):
            _panel(axes, [condition for condition in conditions if kind(condition) == series])
            axes.set_title(series)
        panels[0, 0].set_xticks(sorted({condition.last for condition in conditions}))  # shared by all panels
        panels[0, 0].set_ylim(0, max(condition.layers for condition in conditions) + 0.8)
        for axes in panels[-1]:
            axes.set_xlabel("hops D")
        for axes in panels[:, 0]:
            axes.set_ylabel("layers")
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return figure


def _panel(axes: Axes, conditions: Sequence[Condition]) -> None:
    hops = sorted({condition.last for condition in conditions})
    needs = {condition.last: condition.needs(condition.last) for condition in conditions}
    axes.step(hops, [needs[hop] for hop in hops], where="mid", color=INK, linewidth=1, label="exact minimum (theory)")
    bounds = [hs.theory.depths(hop).theorem_1 for hop in hops]
    axes.step(hops, bounds, where="mid", color=INK, linewidth=0.8, linestyle=":", label="Theorem 1")
    for condition in conditions:
        learned, n = sum(step is not None for step in condition.everything()), len(condition.seeds)
        color = VERMILION if learned and condition.layers < needs[condition.last] else BLUE
        axes.scatter(
            condition.last, condition.layers, s=60, facecolor="white", edgecolor=color, linewidth=0.8, zorder=3
        )
        axes.scatter(condition.last, condition.layers, s=60 * learned / n, color=color, linewidth=0, zorder=4)
        axes.annotate(f"{learned}/{n}", (condition.last, condition.layers), xytext=(0, 6), textcoords="offset points",
                      ha="center", fontsize=5.5)  # fmt: skip
