"""The figure of `studies.harder`: how often a pretrained model is right, by dress, and what it says instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hopscope.plot import BLUE, FAINT, GREEN, INK, ORANGE, PAGE, PURPLE, VERMILION, hop_look, house, new_figure
from studies.harder import DRESSES, HOPS, KINDS, PUBLISHED, DressPoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = dict(zip(KINDS, (BLUE, PURPLE, VERMILION, GREEN, ORANGE, FAINT, "white"), strict=True))


def harder(found: Sequence[DressPoint]) -> Figure:
    """Draw how often the right answer is the likeliest, by dress and D (left), and the next word at D = 2 (right)."""
    names = [dress.name for dress in DRESSES if any(point.dress == dress.name for point in found)]
    with house():
        drawn = new_figure(PAGE, 3.6)
        left, right = drawn.subplots(1, 2, sharey=True, width_ratios=[1, 1.1])
        for hops in sorted({point.hops for point in found}):
            _dots(left, [point for point in found if point.hops == hops], names, hops)
        left.set_yticks(range(len(names)), names)
        left.set_ylim(len(names) - 0.4, -0.6)
        left.set_xlim(-0.02, 1.03)
        left.set_xlabel("right answer likeliest")
        left.legend(loc="lower left", fontsize=6.5, bbox_to_anchor=(0.0, 1.0), ncols=2)
        for point in (point for point in found if point.hops == 2):
            start = 0.0
            for kind, color in COLORS.items():
                label = kind if point.dress == PUBLISHED else None
                width = point.kinds[kind]
                right.barh(names.index(point.dress), width, 0.7, start, color=color, edgecolor=INK, lw=0.3, label=label)
                start += width
        right.set_xlim(0, 1)
        right.set_xlabel("probability of the next word, D = 2")
        drawn.legend(loc="outside lower center", ncols=4, fontsize=6.5, handles=right.get_legend_handles_labels()[0])
    return drawn


def _dots(axes: Axes, found: Sequence[DressPoint], names: Sequence[str], hops: int) -> None:
    look = hop_look(hops)
    at = [names.index(point.dress) + 0.2 * (hops - 2) for point in found]
    shares = [point.likeliest / point.n for point in found]
    ends = [
        [share - point.low for share, point in zip(shares, found, strict=True)],
        [point.high - share for share, point in zip(shares, found, strict=True)],
    ]
    axes.errorbar(
        shares,
        at,
        xerr=ends,
        color=look.color,
        marker=look.marker,
        linestyle="none",
        elinewidth=0.8,
        label=f"D = {hops}",
    )
    if hops == HOPS[0]:
        axes.vlines([p.guess for p in found], [y - 0.2 for y in at], [y + 0.6 for y in at], color=INK, linestyle=":")
