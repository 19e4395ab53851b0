"""The figure of the places study: which seeds learn two hops with theory's number of layers or one fewer, and how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import hopscope as hs
from hopscope.plot import BLUE, GREEN, INK, ORANGE, PAGE, PURPLE, VERMILION, house, new_figure
from hopscope.statistics import clopper_pearson
from studies.places import PlacesResult
from studies.tools.conditions import Condition
from studies.tools.drawing import n_label
from studies.tools.position_based import RISES
from studies.tools.records import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LAYERS = (("o", VERMILION), ("s", BLUE))
"""Marks and colours by number of layers, starting with the fewest layers."""

_LEAST = 1e-4
"""The value to draw for a loss that does not rise, which is the precision of numbers in records."""

_CHAINS = (GREEN, ORANGE, PURPLE)
"""Colours by number of chains."""


def places(found: PlacesResult) -> Figure:
    """Draw the study in three panels.

    Left: the share of seeds that learned the second hop, with its 95% interval. Middle: how much the second hop's loss
    rises when rows are moved, for each model that learned the hop; a model above the line is position-based. Right: the
    share of seeds that learned the hop with one layer fewer than theory asks for, by number of heads.

    Raises:
        InputError: no condition has a finished seed.
    """
    if not any(condition.seeds for condition in found.conditions):
        raise hs.InputError("there is nothing to draw: no seed is finished")
    with house():
        figure = new_figure(PAGE, 2.5)
        learned, moved, by_heads = figure.subplots(1, 3)
        depths = sorted({condition.layers for condition in found.conditions})
        for layers, (mark, color) in zip(depths, _LAYERS, strict=False):
            _draw(found, layers, mark, color, learned, moved, shift=0.08 * (2 * depths.index(layers) - 1))
        learned.set_title(
            f"{n_label(len(condition.seeds) for condition in found.by_layers if condition.seeds)} seeds each",
            fontsize=7.5,
        )
        learned.set_ylabel("share of seeds that learn $x_2$")
        learned.set_ylim(-0.03, 1.03)
        moved.set_title(f"position-based above {RISES:g}", fontsize=7.5)
        moved.set_ylabel("rise of the loss of $x_2$, rows moved")
        moved.set_yscale("log")
        moved.axhline(RISES, color=INK, linewidth=0.7, linestyle=":")
        moved.annotate(f"{RISES:g}", (1.01, RISES), xycoords=("axes fraction", "data"), va="center", fontsize=6)
        for axes in (learned, moved):
            axes.set_xticks(sorted({condition.problem.chains for condition in found.conditions}))
            axes.set_xlabel("chains N")
        _draw_heads(found, by_heads)
        figure.legend(*learned.get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return figure


def _draw(found: PlacesResult, layers: int, mark: str, color: str, learned: Axes, moved: Axes, shift: float) -> None:
    """Draw the conditions with this number of layers in the left and middle panels."""
    conditions = [by_layer for by_layer in found.by_layers if by_layer.layers == layers and by_layer.seeds]
    if not conditions:
        return
    needed = "as theory asks" if layers >= conditions[0].needs(2) else "one fewer than theory asks for"
    at = [condition.problem.chains + shift for condition in conditions]
    learned.errorbar(at, *_shares(conditions), fmt=mark, color=color, linewidth=1, label=f"{layers} layers, {needed}")
    for chains, condition in zip(at, conditions, strict=True):
        losses = [max(test.rise(2), _LEAST) for test in found.of(condition)]
        spread = [chains + 0.02 * (place - (len(losses) - 1) / 2) for place in range(len(losses))]
        moved.plot(spread, losses, mark, color=color, markersize=3.5, alpha=0.8)


def _draw_heads(found: PlacesResult, axes: Axes) -> None:
    """Draw the share of seeds that learned with the fewest layers, by number of heads; each line has its own N."""
    axes.set_xscale("log", base=2)
    shallow = [condition for condition in found.shallow if condition.seeds]
    for number, chains in enumerate(sorted({condition.problem.chains for condition in shallow})):
        conditions = [condition for condition in shallow if condition.problem.chains == chains]
        at = [condition.heads * 2 ** (0.12 * (number - 1)) for condition in conditions]
        color = _CHAINS[number % len(_CHAINS)]
        axes.errorbar(
            at, *_shares(conditions), fmt="o-", color=color, linewidth=1, markersize=3.5, label=f"N = {chains}"
        )
    heads = sorted({condition.heads for condition in found.shallow})
    axes.set_xticks(heads, [str(head) for head in heads])
    axes.set_xlabel("heads per layer")
    axes.set_ylim(-0.03, 1.03)
    if shallow:
        axes.set_title(
            f"{counted(shallow[0].layers, 'layer')}, {n_label(len(shape.seeds) for shape in shallow)} seeds each",
            fontsize=7.5,
        )
        axes.legend(loc="upper left", fontsize="small")


def _shares(conditions: Sequence[Condition]) -> tuple[list[float], list[list[float]]]:
    """Return, for each condition, the share of seeds that learned the second hop, and how far its 95% interval reaches
    below and above."""
    shares = [len(condition.steps(2)) / len(condition.seeds) for condition in conditions]
    bounds = [clopper_pearson(len(condition.steps(2)), len(condition.seeds)) for condition in conditions]
    down = [share - low for share, (low, _) in zip(shares, bounds, strict=True)]
    return shares, [down, [high - share for share, (_, high) in zip(shares, bounds, strict=True)]]
