"""The figure of the descent study: how much of the last circuit each checkpoint has, and what spikes change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hopscope as hs
from hopscope.plot import BLUE, PAGE, VERMILION, house, new_figure, thousands
from studies.descent import RATES, DescentResult
from studies.tools.drawing import shares_at_or_below
from studies.tools.followed import Followed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SPIKES = {False: (BLUE, "no spike between"), True: (VERMILION, "a spike between")}


def descent(result: DescentResult) -> Figure:
    """Draw, for each rate, the share of the last circuit's paths that the circuit of each checkpoint has. Each line is
    a model, and each cross is a spike of the loss. The right panel shows the overlap of the circuits of neighbouring
    checkpoints, over both rates.

    Raises:
        InputError: no model has circuits at two checkpoints.
    """
    if not any(result.solved(rate) for rate in RATES):
        raise hs.InputError("there is nothing to draw: no model has circuits at two checkpoints")
    with house():
        figure = new_figure(PAGE, 2.3)
        *panels, right = figure.subplots(1, len(RATES) + 1)
        for axes, rate in zip(panels, RATES, strict=True):
            for model in result.solved(rate):
                _line(axes, model)
            axes.set_title(f"{rate} rate (n = {len(result.solved(rate))})")
            axes.set_xlabel("step")
            axes.set_ylim(-0.02, 1.05)
            thousands(axes)
        panels[0].set_ylabel("share of the last circuit's paths")
        panels[0].plot([], [], "x", color=VERMILION, markersize=3, label="a spike of the loss")
        panels[0].legend(loc="lower left")
        changes = [change for rate in RATES for model in result.solved(rate) for change in model.changes]
        lines = {}
        for spike, (color, label) in _SPIKES.items():
            shares = [share for share, between in changes if between is spike]
            lines[f"{label} ({len(shares)})"] = shares, color
        shares_at_or_below(right, lines)
        right.set_xlabel("overlap of neighbouring circuits")
        right.set_ylabel("share at or below")
    return figure


def _line(axes: Axes, model: Followed) -> None:
    steps = [circuit.step or 0 for circuit in model.circuits]
    shares = [model.kept([circuit]) for circuit in model.circuits]
    axes.plot(steps, shares, color=BLUE, marker="o", markersize=2, linewidth=0.8, alpha=0.6)
    axes.plot(model.spikes, [1.03] * len(model.spikes), "x", color=VERMILION, markersize=3)
