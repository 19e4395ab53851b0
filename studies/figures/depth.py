"""Trained depth against the depth that theory asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import hopscope as hs
from hopscope.plot import BLUE, COLUMN, INK, VERMILION, house, new_figure
from studies.depth import kind
from studies.tools.arms import ArmLearned, Arms

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def depth(found: Arms) -> Figure:
    """A panel for each mask and number of heads: a disc per D and depth, filled by the share that learned all hops.

    The line is the theory's exact minimum, the dotted one Theorem 1. Below the line a disc is red if a seed learned all
    hops.

    Raises:
        InputError: no arm has a finished seed.
    """
    arms = found.begun
    kinds = list(dict.fromkeys(map(kind, arms)))
    with house():
        across = min(2, len(kinds))
        rows = -(-len(kinds) // across)
        figure = new_figure(COLUMN * across, 0.3 + 2.3 * rows)
        panels = figure.subplots(rows, across, sharex=True, sharey=True, squeeze=False)
        for axes, series in zip(panels.flat, kinds, strict=False):
            _panel(axes, [arm for arm in arms if kind(arm) == series])
            axes.set_title(series)
        panels[0, 0].set_xticks(sorted({arm.last for arm in arms}))  # shared by all panels
        panels[0, 0].set_ylim(0, max(arm.layers for arm in arms) + 0.8)
        for axes in panels[-1]:
            axes.set_xlabel("hops D")
        for axes in panels[:, 0]:
            axes.set_ylabel("layers")
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return figure


def _panel(axes: Axes, arms: Sequence[ArmLearned]) -> None:
    hops = sorted({arm.last for arm in arms})
    needs = {arm.last: arm.needs(arm.last) for arm in arms}
    axes.step(hops, [needs[hop] for hop in hops], where="mid", color=INK, linewidth=1, label="exact minimum (theory)")
    bounds = [hs.theory.depths(hop).theorem_1 for hop in hops]
    axes.step(hops, bounds, where="mid", color=INK, linewidth=0.8, linestyle=":", label="Theorem 1")
    for arm in arms:
        learned, n = sum(step is not None for step in arm.everything()), len(arm.seeds)
        color = VERMILION if learned and arm.layers < needs[arm.last] else BLUE
        axes.scatter(arm.last, arm.layers, s=60, facecolor="white", edgecolor=color, linewidth=0.8, zorder=3)
        axes.scatter(arm.last, arm.layers, s=60 * learned / n, color=color, linewidth=0, zorder=4)
        axes.annotate(f"{learned}/{n}", (arm.last, arm.layers), xytext=(0, 6), textcoords="offset points",
                      ha="center", fontsize=5.5)  # fmt: skip
