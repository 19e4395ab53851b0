"""The figure of reused heads: what the heads of one hop carry at each D, and which layers' heads are missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hopscope.plot import BLUE, INK, PAGE, VERMILION, house, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from studies.reuse import Added, Reuse
    from studies.tools.fresh import Share

_WIDTH = 0.17
"""The distance of two points of one D."""


def reuse(found: Sequence[Reuse], added: Sequence[Added], hops: int) -> Figure:
    """Draw the shares with only the heads and without them, by D; and those with the heads of more layers."""
    with house():
        figure = new_figure(PAGE, 2.5)
        left, right = figure.subplots(1, 2, width_ratios=[2, 3], sharey=True)
        for place, each in enumerate(found):
            kinds = (each.only, each.only_random), (each.without, each.without_random)
            for side, (share, random) in enumerate(kinds):
                x, color = place + (2 * side - 1) * _WIDTH, (BLUE, VERMILION)[side]
                left.scatter(
                    [x + 0.1] * len(random), [other.value for other in random], s=9, color="none", edgecolor=INK
                )
                _point(
                    left, x, share, color, label=("only these heads", "without these heads")[side] if not place else ""
                )
            left.hlines(each.guess, place - 0.4, place + 0.4, color=INK, linewidth=0.9, linestyle="--")
        left.scatter([], [], s=9, color="none", edgecolor=INK, label="random heads of the same layers")
        left.plot([], [], color=INK, linewidth=0.9, linestyle="--", label="a guess among four answers")
        left.set_xticks(range(len(found)), ["1 hop" if each.hops == 1 else f"{each.hops} hops" for each in found])
        left.set_ylabel("share of the way to the model")
        left.legend(fontsize=6, loc="upper left")
        for place, more in enumerate(added):
            _point(right, place, more.share, BLUE)
        before = next(each for each in found if each.hops == hops)
        right.axhline(before.guess, color=INK, linewidth=0.9, linestyle="--")
        right.axhspan(*before.only.interval, color=BLUE, alpha=0.15, linewidth=0)
        right.set_xticks(range(len(added)), [f"{more.first}-{more.last}" for more in added], fontsize=6)
        right.set_xlabel(f"layers whose heads are all added, {hops} hops (band: none added)")
        for axes in (left, right):
            axes.axhline(1, color=INK, linewidth=0.6, linestyle=":")
            axes.axhline(0, color=INK, linewidth=0.6, linestyle=":")
    return figure


def _point(axes: Axes, x: float, share: Share, color: str, label: str = "") -> None:
    axes.plot([x, x], share.interval, color=color, linewidth=1.2)
    axes.plot([x], [share.value], "o", color=color, markersize=4, label=label or None)
