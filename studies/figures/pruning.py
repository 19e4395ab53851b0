"""What is left of models whose spare heads were removed: how many paths, and whether they are certified."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import hopscope as hs
from hopscope.plot import BLUE, INK, PAGE, VERMILION, house, new_figure
from studies.pruning import PruningResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from studies.tools.circuits import Seen


def pruning(result: PruningResult) -> Figure:
    """Models with all heads and pruned, a line for each seed, and models of the laptop's recipe. Left: paths of each
    circuit in the natural reading, filled where it is certified. Right: the loss of each model, with the bar.

    Raises:
        InputError: no model has a circuit.
    """
    if not any(one.paths for one in (*result.pruned, *result.whole, *result.laptop)):
        raise hs.InputError("there is nothing to draw: no model has a circuit")
    from matplotlib.ticker import MaxNLocator

    with house():
        figure = new_figure(PAGE * 0.85, 2.4)
        left, right = figure.subplots(1, 2)
        for axes, of in ((left, lambda one: len(one.paths) or None), (right, lambda one: one.loss)):
            _pairs(axes, result, of)
        left.set_ylabel("paths, natural reading")
        left.set_ylim(bottom=0)
        left.plot([], [], "o", color=BLUE, label="certified")
        left.plot([], [], "o", color=VERMILION, markerfacecolor="white", label="not certified")
        left.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        left.legend(loc="lower left")
        right.set_ylabel("loss of the model")
        right.axhline(result.bar, color=INK, linewidth=0.8, linestyle=":")
        right.annotate(f"the bar, {result.bar:g}", (0.98, result.bar), xycoords=("axes fraction", "data"), ha="right",
                       va="bottom", fontsize=6.5)  # fmt: skip
        right.set_yscale("log")
    return figure


def _pairs(axes: Axes, result: PruningResult, of: Callable[[Seen], float | None]) -> None:
    """Draw a number of every model, an arm beside the other; lines join the two of a seed."""
    for pruned, whole in result.pairs:
        before, after = of(whole), of(pruned)
        if before is not None and after is not None:
            axes.plot([0, 1], [before, after], color=INK, linewidth=0.5, alpha=0.4, zorder=1)
    arms = {"all heads": result.whole, "pruned": result.pruned, "laptop": result.looked_at, "new seeds": result.unseen}
    for place, models in enumerate(arms.values()):
        for number, model in enumerate(models):
            value = of(model)
            if value is not None:
                color, filled = (BLUE, BLUE) if "natural" in model.certified else (VERMILION, "white")
                x = place + 0.012 * (number - len(models) / 2)
                axes.plot(x, value, "o", markersize=4, color=color, markerfacecolor=filled)
    axes.set_xticks(range(len(arms)), [f"{name}\n(n = {len(models)})" for name, models in arms.items()])
    axes.set_xlim(-0.4, len(arms) - 0.6)
