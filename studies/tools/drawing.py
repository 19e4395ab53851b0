"""Drawing functions that the figures of several studies share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def shares_at_or_below(axes: Axes, lines: Mapping[str, tuple[Sequence[float], str]]) -> None:
    """Draw the cumulative share of values between 0 and 1; `lines` gives the values and the colour for each label."""
    for label, (values, color) in lines.items():
        heights = [(place + 1) / len(values) for place in range(len(values))]
        axes.plot([0, *sorted(values)], [0, *heights], drawstyle="steps-post", color=color, label=label)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.3)  # with room for the legend
    axes.set_yticks([0, 0.5, 1])
    axes.legend(loc="upper left", fontsize=6.5)


def n_label(numbers: Iterable[int]) -> str:
    """Return `n = 6`, or `n = 3 to 6` if the numbers differ."""
    found = sorted(numbers) or [0]
    return f"n = {found[0]}" if found[0] == found[-1] else f"n = {found[0]} to {found[-1]}"
