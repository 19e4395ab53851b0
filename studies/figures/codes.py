"""The figure of the study of position codes: how many circuits double, and how many models save a layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hopscope as hs
from hopscope.plot import BLUE, COLUMN, VERMILION, house, new_figure
from hopscope.statistics import clopper_pearson
from studies.codes import CodesResult, outcomes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def codes(found: CodesResult) -> Figure:
    """Draw the share of circuits that double and the share of models that save a layer, by position code. Bars are 95%
    intervals.

    Raises:
        InputError: no model is finished.
    """
    shown = {name: models for name, models in outcomes(found).items() if models}
    if not shown:
        raise hs.InputError("there is nothing to draw: no model is finished")
    with house():
        figure = new_figure(COLUMN * 1.3, 0.34 * len(shown) + 0.75)
        axes = figure.subplots()
        for place, (name, models) in enumerate(shown.items()):
            yes, n = sum(models), len(models)
            low, high = clopper_pearson(yes, n)
            color = BLUE if "circuit" in name else VERMILION
            axes.errorbar(yes / n, place, xerr=[[yes / n - low], [high - yes / n]], fmt="o", color=color, capsize=2)
            axes.annotate(
                f"{yes} of {n}", (yes / n, place), (0, 4), textcoords="offset points", ha="center", fontsize=6.5
            )
        axes.set_yticks(range(len(shown)), list(shown))
        axes.set_ylim(len(shown) - 0.5, -0.7)
        axes.set_xlim(-0.09, 1.04)
        axes.set_xlabel("share, with 95% interval")
    return figure
