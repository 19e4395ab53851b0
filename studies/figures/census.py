"""The figure of the census: how large circuits are, how similar they are, and whether they change."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import hopscope as hs
from hopscope.plot import BLUE, INK, PAGE, VERMILION, hop_look, house, new_figure
from studies.census import CensusResult
from studies.tools.circuits import between
from studies.tools.drawing import shares_at_or_below
from studies.tools.records import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def census(result: CensusResult) -> Figure:
    """Draw the census in three panels.

    Left: the number of paths with imposed patterns, by depth; the line is the theory's minimum. Middle: the overlap of
    retrieval steps beyond the first useful layer, between models and between two searches of the same model. Right: the
    number of paths before and after further training.

    Raises:
        InputError: no model has a circuit.
    """
    if not any(result.solved(layers) for layers in result.depths):
        raise hs.InputError("there is nothing to draw: no model has a circuit")
    with house():
        figure = new_figure(PAGE, 2.4)
        left, middle, right = figure.subplots(1, 3)
        _sizes(left, result)
        _likeness(middle, result)
        _drift(right, result)
    return figure


def _sizes(axes: Axes, result: CensusResult) -> None:
    from matplotlib.ticker import MaxNLocator

    for place, layers in enumerate(result.depths):
        models = [model for model in result.solved(layers) if model.imposed]
        counts = Counter(len(model.imposed) for model in models)
        sizes = range(min(counts, default=0), max(counts, default=-1) + 1)  # includes sizes that no circuit has
        look = hop_look(place + 1)
        axes.plot(sizes, [counts[size] / len(models) for size in sizes], color=look.color, marker=look.marker,
                  label=f"{layers} layers (n = {len(models)})")  # fmt: skip
    least = hs.theory.minimum_paths(result.models[0].hops)
    axes.axvline(least, ymax=0.55, color=INK, linewidth=0.8, linestyle=":", label=f"theory's least, {least}")
    axes.set_xlabel("paths, imposed patterns")
    axes.set_ylabel("share of models")
    axes.set_ylim(0, 1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.legend()


def _likeness(axes: Axes, result: CensusResult) -> None:
    solved = [result.solved(layers) for layers in result.depths]
    others = [share for models in solved for share in between(models)]
    own = [model.within for models in solved for model in models if model.within is not None]
    lines = {
        f"two models (n = {len(others)})": (others, VERMILION),
        f"two searches of one (n = {len(own)})": (own, BLUE),
    }
    shares_at_or_below(axes, lines)
    axes.set_xlabel("overlap of steps")
    axes.set_ylabel("share of models at or below")


def _drift(axes: Axes, result: CensusResult) -> None:
    for first, later in result.pairs:
        axes.plot([0, 1], [len(first.paths), len(later.paths)], color=BLUE, marker="o", markersize=2.5, alpha=0.5)
    axes.set_xticks([0, 1], ["learned", "trained on"])
    axes.set_xlim(-0.3, 1.3)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("paths, own patterns")
    axes.set_title(counted(len(result.pairs), "model"), fontsize=7.5)
