"""The figure of the pruning study: the paths and losses of models with all heads and of pruned models."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import hopscope as hs
from hopscope.plot import BLUE, INK, PAGE, VERMILION, house, new_figure
from studies.pruning import PruningResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from studies.tools.circuits import CircuitSummary


def pruning(result: PruningResult) -> Figure:
    """Draw models with all heads and pruned models, joined by seed, and models of the laptop's recipe.

    Left: the number of paths of each circuit; a filled dot is a certified circuit. Right: the loss of each model, and
    the loss threshold.

    Raises:
        InputError: no model has a circuit.
    """
    if not any(model.paths for model in (*result.pruned, *result.whole, *result.laptop)):
        raise hs.InputError("there is nothing to draw: no model has a circuit")
    from matplotlib.ticker import MaxNLocator

    with house():
        figure = new_figure(PAGE * 0.85, 2.4)
        left, right = figure.subplots(1, 2)
        for axes, of in ((left, lambda model: len(model.paths) or None), (right, lambda model: model.loss)):
            _pairs(axes, result, of)
        left.set_ylabel("paths of the circuit")
        left.set_ylim(bottom=0)
        left.plot([], [], "o", color=BLUE, label="certified")
        left.plot([], [], "o", color=VERMILION, markerfacecolor="white", label="not certified")
        left.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        left.legend(loc="lower left")
        right.set_ylabel("loss of the model")
        right.axhline(result.max_loss, color=INK, linewidth=0.8, linestyle=":")
        right.annotate(f"threshold, {result.max_loss:g}", (0.98, result.max_loss), xycoords=("axes fraction", "data"),
                       ha="right", va="bottom", fontsize=6.5)  # fmt: skip
        right.set_yscale("log")
    return figure


def _pairs(axes: Axes, result: PruningResult, of: Callable[[CircuitSummary], float | None]) -> None:
    """Draw the value of `of` for every model, by condition. Lines join the two models of a seed."""
    for pruned, whole in result.pairs:
        before, after = of(whole), of(pruned)
        if before is not None and after is not None:
            axes.plot([0, 1], [before, after], color=INK, linewidth=0.5, alpha=0.4, zorder=1)
    conditions = {
        "all heads": result.whole,
        "pruned": result.pruned,
        "laptop": result.earlier,
        "new seeds": result.unseen,
    }
    for place, models in enumerate(conditions.values()):
        for number, model in enumerate(models):
            value = of(model)
            if value is not None:
                color, filled = (BLUE, BLUE) if "own" in model.certified else (VERMILION, "white")
                x = place + 0.012 * (number - len(models) / 2)
                axes.plot(x, value, "o", markersize=4, color=color, markerfacecolor=filled)
    axes.set_xticks(range(len(conditions)), [f"{name}\n(n = {len(models)})" for name, models in conditions.items()])
    axes.set_xlim(-0.4, len(conditions) - 0.6)
