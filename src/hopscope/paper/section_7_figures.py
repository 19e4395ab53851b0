"""Figure 4: the final validation loss by number of layers (Section 7.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

from hopscope.paper.groups import Group
from hopscope.plot.style import COLUMN, INK, Look, curriculum_look, hop_label, hop_look, house, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CEILING = 1.2
"""Losses above this are marked at the upper edge, like runs that diverged; 1.0 is the loss of predicting nothing."""

_THEORY_DASHES = ((0, (1, 1.5)), (0, (4, 1.5, 1, 1.5)), (0, (5, 2)), (0, (1, 3)))


@dataclass(frozen=True)
class _Series:
    """One line: the losses of all seeds for every depth; NaN where a run diverged."""

    label: str
    look: Look
    losses: dict[int, list[float]]


def final_losses(groups: Sequence[Group], theory: Mapping[str, float] | None = None) -> Figure:
    """The left half: the final validation loss with and without the implicit curriculum.

    Lines are means over seeds, bands run from the lowest seed to the highest, and every seed is a dot.

    Args:
        groups: a group for each depth, with the curriculum, without it, or both.
        theory: numbers of layers to mark with a vertical line each, by the line's label.
    """
    series = []
    for curriculum in (True, False):
        if some := _by_depth(groups, curriculum):
            label = f"{'IC' if curriculum else 'no IC'}, D = {some[0].hops}"
            losses = {group.layers: list(map(_number, group.final_validation_loss)) for group in some}
            series.append(_Series(label, curriculum_look(curriculum), losses))
    with house():
        figure = new_figure(COLUMN, 3.1)
        axes = figure.subplots()
        _draw(axes, series, bands=True)
        axes.set_ylabel("final validation loss")
        _plateau(axes, groups)
        for (label, layers), dash in zip((theory or {}).items(), cycle(_THEORY_DASHES), strict=False):
            axes.axvline(layers, color=INK, linewidth=0.9, linestyle=dash, zorder=1, label=label)
        figure.legend(loc="outside upper left", ncols=2)
    return figure


def partial_losses(groups: Sequence[Group], theory: Mapping[int, float] | None = None) -> Figure:
    """The right half: the final partial loss of every hop, with the implicit curriculum.

    Lines are means over seeds, and every seed is a dot; bands of five hops would hide one another.

    Args:
        groups: a group for each depth; those without the curriculum have no partial losses to show.
        theory: for a hop, the number of layers that theory asks for, marked on the axis in the hop's colour.
    """
    some = _by_depth(groups, curriculum=True)
    series = []
    for hop in some[0].asked:
        losses = {group.layers: [_number(seed[hop - 1]) for seed in group.final_partial_losses] for group in some}
        series.append(_Series(hop_label(hop), hop_look(hop), losses))
    with house():
        figure = new_figure(COLUMN, 3.1)
        axes = figure.subplots()
        _draw(axes, series)
        axes.set_ylabel("final partial loss")
        _plateau(axes, groups)
        _mark_theory(axes, theory or {}, some[-1].layers)
        figure.legend(loc="outside upper left", ncols=5)
    return figure


def _by_depth(groups: Sequence[Group], curriculum: bool) -> list[Group]:
    return sorted((group for group in groups if group.curriculum is curriculum), key=lambda group: group.layers)


def _draw(axes: Axes, series: Sequence[_Series], *, bands: bool = False) -> None:
    """Draw the mean of every series, its range if asked for, and its dots; crosses at the upper edge are off the
    scale."""
    losses = [loss for line in series for seeds in line.losses.values() for loss in seeds]
    top = max([0.9, *(1.05 * loss for loss in losses if _shown(loss))])
    for nth, line in enumerate(series):
        # Later lines are thinner and lie on top, and a seed's dot stands a little beside its depth: where series have
        # the same height, all of them show.
        under, aside = len(series) - 1 - nth, 0.09 * (nth - (len(series) - 1) / 2)
        _draw_series(axes, line, 1.3 + 0.45 * under, aside, band=bands)
        crosses = [layers + aside for layers, seeds in line.losses.items() for loss in seeds if not _shown(loss)]
        if crosses:
            axes.plot(crosses, [top] * len(crosses), color=line.look.color, marker="x", linestyle="none",
                      clip_on=False, label=f"_off the scale {line.label}", zorder=5)  # fmt: skip
    if not all(map(_shown, losses)):
        axes.annotate("×: diverged or off the scale", (1, 1), xytext=(0, 5), xycoords="axes fraction",
                      textcoords="offset points", ha="right", fontsize=6.5)  # fmt: skip
    every = sorted({layers for line in series for layers in line.losses})
    axes.set_xticks(every)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    axes.set_xlim(every[0] - 0.4, every[-1] + 0.4)
    axes.set_ylim(0, top)
    axes.set_xlabel("layers")


def _draw_series(axes: Axes, line: _Series, width: float, aside: float, *, band: bool) -> None:
    kept = {layers: [loss for loss in seeds if _shown(loss)] for layers, seeds in line.losses.items()}
    depths = [layers for layers, seeds in kept.items() if seeds]
    means = [sum(kept[layers]) / len(kept[layers]) for layers in depths]
    look = line.look
    if band:
        low, high = [min(kept[layers]) for layers in depths], [max(kept[layers]) for layers in depths]
        axes.fill_between(depths, low, high, color=look.color, alpha=0.16, linewidth=0)
    axes.plot(depths, means, color=look.color, marker=look.marker, linestyle=look.dash, linewidth=width, zorder=3,
              markersize=3 + width, markeredgecolor="white", markeredgewidth=0.5, label=line.label)  # fmt: skip
    dots = [(layers + aside, loss) for layers in depths for loss in kept[layers]]
    axes.plot([x for x, _ in dots], [y for _, y in dots], color=look.color, marker=look.marker, linestyle="none",
              markersize=2.1, alpha=0.75, label=f"_seeds {line.label}", zorder=4)  # fmt: skip


def _plateau(axes: Axes, groups: Sequence[Group]) -> None:
    """Draw the loss of answering with the mean of the N candidates: 1 - 1/N."""
    for chains in sorted({group.chains for group in groups}):
        loss = 1 - 1 / chains
        axes.axhline(loss, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), zorder=2)
        axes.annotate(
            f"mean of the {chains} candidates: {loss:.4g}", (0.99, loss), xytext=(0, 3), va="bottom", ha="right",
            xycoords=("axes fraction", "data"), textcoords="offset points", fontsize=6.5,
            bbox={"facecolor": "white", "linewidth": 0, "pad": 1},
        )  # fmt: skip


def _mark_theory(axes: Axes, theory: Mapping[int, float], deepest: int) -> None:
    """Draw a vertical line in the colour of each hop at its number of layers; side by side where these are equal."""
    for hop, layers in theory.items():
        if layers > deepest:
            continue
        nth = [other for other in theory if theory[other] == layers].index(hop)
        axes.axvline(
            layers - 0.07 * (nth + 1), color=hop_look(hop).color, linestyle=(0, (1, 1.2)), linewidth=1.3, zorder=1,
            label=f"_theory {hop_label(hop)}",
        )  # fmt: skip


def _number(loss: float | None) -> float:
    return math.nan if loss is None else float(loss)


def _shown(loss: float) -> bool:
    return loss <= CEILING  # false for NaN
