"""Circuits over training: how much of the last one is there when, and what spikes do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hopscope.errors import InputError
from hopscope.plot.style import BLUE, PAGE, VERMILION, house, new_figure, thousands
from hopscope.studies.descent import RATES, DescentResult
from hopscope.studies.followed import Followed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SPIKES = {False: (BLUE, "no spike between"), True: (VERMILION, "a spike between")}


def descent(result: DescentResult) -> Figure:
    """A panel a rate: the share of the last circuit's paths that each checkpoint's circuit has, a line a model, a cross
    where the loss spiked. Right: what two neighbouring checkpoints have in common, at either rate.

    Raises:
        InputError: no model with circuits.
    """
    if not any(result.solved(rate) for rate in RATES):
        raise InputError("there is nothing to draw: no model has circuits at two checkpoints")
    with house():
        figure = new_figure(PAGE, 2.3)
        *panels, right = figure.subplots(1, len(RATES) + 1)
        for axes, rate in zip(panels, RATES, strict=True):
            for one in result.solved(rate):
                _line(axes, one)
            axes.set_title(f"{rate} rate (n = {len(result.solved(rate))})")
            axes.set_xlabel("step")
            axes.set_ylim(-0.02, 1.05)
            thousands(axes)
        panels[0].set_ylabel("share of the last circuit's paths")
        changes = [change for rate in RATES for one in result.solved(rate) for change in one.changes]
        for spike, (color, label) in _SPIKES.items():
            shares = sorted(share for share, between in changes if between is spike)
            heights = [(place + 1) / len(shares) for place in range(len(shares))]
            right.plot(
                [0, *shares], [0, *heights], drawstyle="steps-post", color=color, label=f"{label} ({len(shares)})"
            )
        right.set_xlabel("overlap of neighbouring circuits")
        right.set_ylabel("share at or below")
        right.set_xlim(0, 1)
        right.set_ylim(0, 1.3)
        right.set_yticks([0, 0.5, 1])
        right.legend(loc="upper left", fontsize=6.5)
    return figure


def _line(axes: Axes, one: Followed) -> None:
    steps = [seen.step or 0 for seen in one.circuits]
    axes.plot(steps, [one.kept([seen]) for seen in one.circuits], color=BLUE, marker="o", markersize=2, linewidth=0.8,
              alpha=0.6)  # fmt: skip
    axes.plot(one.spikes, [1.03] * len(one.spikes), "x", color=VERMILION, markersize=3)
