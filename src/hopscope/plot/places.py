"""Two hops by chains, with the layers that theory asks for and one fewer: who learns them, and who goes by place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hopscope.errors import InputError
from hopscope.plot.style import BLUE, INK, PAGE, VERMILION, house, new_figure
from hopscope.statistics import clopper_pearson
from hopscope.studies.by_place import LOST
from hopscope.studies.places import PlacesResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LAYERS = (("o", VERMILION), ("s", BLUE))
"""Marks and colours, fewest layers first."""


def places(found: PlacesResult) -> Figure:
    """Left, the share of seeds that learned the second hop, with its 95% interval; right, of each model that has it the
    highest loss of the second hop where rows are moved, above the line if it goes by place.

    Raises:
        InputError: no arm with a seed.
    """
    if not any(arm.seeds for arm in found.arms):
        raise InputError("there is nothing to draw: no seed is finished")
    with house():
        figure = new_figure(PAGE * 0.9, 2.5)
        learned, moved = figure.subplots(1, 2)
        depths = sorted({arm.layers for arm in found.arms})
        for layers, (mark, color) in zip(depths, _LAYERS, strict=False):
            _draw(found, layers, mark, color, learned, moved, shift=0.08 * (2 * depths.index(layers) - 1))
        learned.set_ylabel("share of seeds that learn $x_2$")
        learned.set_ylim(-0.03, 1.03)
        moved.set_ylabel("loss of $x_2$, rows moved")
        moved.set_yscale("log")
        moved.axhline(LOST, color=INK, linewidth=0.7, linestyle=":")
        for axes in (learned, moved):
            axes.set_xticks(sorted({arm.setup.problem.chains for arm in found.arms}))
            axes.set_xlabel("chains N")
        figure.legend(*learned.get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return figure


def _draw(found: PlacesResult, layers: int, mark: str, color: str, learned: Axes, moved: Axes, shift: float) -> None:
    """Everything of so many layers."""
    arms = [one for one in found.arms if one.layers == layers and one.seeds]
    if not arms:
        return
    told = "as theory asks" if layers >= arms[0].needs(2) else "one fewer than theory asks for"
    at = [arm.setup.problem.chains + shift for arm in arms]
    shares = [len(arm.steps(2)) / len(arm.seeds) for arm in arms]
    bounds = [clopper_pearson(len(arm.steps(2)), len(arm.seeds)) for arm in arms]
    reach = [[share - low for share, (low, _) in zip(shares, bounds, strict=True)],
             [high - share for share, (_, high) in zip(shares, bounds, strict=True)]]  # fmt: skip
    learned.errorbar(at, shares, reach, fmt=mark, color=color, linewidth=1, label=f"{layers} layers, {told}")
    for chains, arm in zip(at, arms, strict=True):
        losses = [one.most(2) for one in found.of(arm)]
        spread = [chains + 0.02 * (place - (len(losses) - 1) / 2) for place in range(len(losses))]
        moved.plot(spread, losses, mark, color=color, markersize=3.5, alpha=0.8)
