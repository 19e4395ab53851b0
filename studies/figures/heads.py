"""The figure of the heads study: the loss of one layer with more and more heads, and of two layers."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from statistics import mean
from typing import TYPE_CHECKING

import hopscope as hs
from hopscope.plot import BLUE, COLUMN, INK, ORANGE, VERMILION, house, new_figure
from studies.heads import MAX_LOSS, HeadsResult
from studies.tools.drawing import n_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLORS = (BLUE, ORANGE, VERMILION)


def heads(result: HeadsResult) -> Figure:
    """Draw the loss against the number of heads. Dots are models, filled with one layer and open with two. Lines join
    the means of one layer. Dotted lines show the loss of averaging the candidates, a solid line the loss threshold.

    Raises:
        InputError: no model is finished.
    """
    if not result.models:
        raise hs.InputError("there is nothing to draw: no model is finished")
    with house():
        figure = new_figure(COLUMN * 1.4, 2.7)
        axes = figure.subplots()
        for number, chains in enumerate(result.chains):
            color = _COLORS[number % len(_COLORS)]
            for layers, inside in ((1, color), (2, "white")):
                found = result.losses(chains, layers)
                x = [heads * 1.04 ** (number - 1) for heads, losses in found.items() for _ in losses]
                axes.plot(x, [*chain(*found.values())], "o", markersize=3, color=color, markerfacecolor=inside)
            means = {heads: mean(losses) for heads, losses in result.losses(chains, 1).items()}
            axes.plot([*means], [*means.values()], color=color, linewidth=1, label=f"N = {chains}")
            axes.axhline(1 - 1 / chains, color=color, linewidth=0.7, linestyle=":")
        axes.plot([], [], "o", markersize=3, color=INK, label="one layer")
        axes.plot([], [], "o", markersize=3, color=INK, markerfacecolor="white", label="two layers")
        axes.plot([], [], color=INK, linewidth=0.7, linestyle=":", label="averaging")
        axes.axhline(MAX_LOSS, color=INK, linewidth=0.7)
        label = f"threshold, {MAX_LOSS:g}"
        axes.annotate(
            label, (0.5, MAX_LOSS), xycoords=("axes fraction", "data"), ha="center", va="bottom", fontsize=6.5
        )
        each = Counter((model.chains, model.layers, model.heads) for model in result.models)
        axes.set_title(f"{n_label(each.values())} models each")
        axes.set_xscale("log", base=2)
        counts = sorted({model.heads for model in result.models})
        axes.set_xticks(counts, [str(count) for count in counts])
        axes.set_yscale("log")
        axes.set_xlabel("heads per layer")
        axes.set_ylabel("loss, one hop")
        figure.legend(loc="outside upper left", ncols=3)
    return figure
