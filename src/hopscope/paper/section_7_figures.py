"""Section 7 in the report: Figure 4."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

from hopscope.paper.report import PageFigure, Section
from hopscope.paper.section_7 import DepthResult, TrainedModel
from hopscope.plot.style import COLUMN, INK, PURPLE, Look, hop_label, hop_look, house, new_figure
from hopscope.theory.depth import depths, reach
from hopscope.words import counted

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


def final_losses(models: Sequence[TrainedModel], theory: Mapping[str, float] | None = None) -> Figure:
    """Draw the left half of Figure 4: the final validation loss with and without the implicit curriculum.

    Lines are means over seeds, bands run from the lowest seed to the highest, and every seed is a dot. `theory` maps
    labels to numbers of layers, each of which is marked with a vertical line.
    """
    series = []
    for curriculum in (True, False):
        if alike := [model for model in models if model.curriculum is curriculum]:
            label = f"{'IC' if curriculum else 'no IC'}, D = {alike[0].hops}"
            losses = _by_depth(alike, [model.loss for model in alike])
            look = Look(INK, "o", "-") if curriculum else Look(PURPLE, "s", "--")
            series.append(_Series(label, look, losses))
    with house():
        figure = new_figure(COLUMN, 3.1)
        axes = _draw(figure, series, "final validation loss", models, bands=True)
        for (label, layers), dash in zip((theory or {}).items(), cycle(_THEORY_DASHES), strict=False):
            axes.axvline(layers, color=INK, linewidth=0.9, linestyle=dash, zorder=1, label=label)
        figure.legend(loc="outside upper left", ncols=2)
    return figure


def partial_losses(models: Sequence[TrainedModel], theory: Mapping[int, float] | None = None) -> Figure:
    """Draw the right half of Figure 4: the final partial loss of every hop, with the implicit curriculum.

    Lines are means over seeds, and every seed is a dot; there are no bands, because five bands would overlap. `theory`
    maps a hop to the number of layers that it needs, which is marked on the axis in the hop's colour.
    """
    shown = [model for model in models if model.curriculum]
    series = [
        _Series(hop_label(hop), hop_look(hop), _by_depth(shown, [model.partial_losses[hop - 1] for model in shown]))
        for hop in shown[0].asked
    ]
    with house():
        figure = new_figure(COLUMN, 3.1)
        axes = _draw(figure, series, "final partial loss", models)
        _mark_theory(axes, theory or {}, max(model.layers for model in shown))
        figure.legend(loc="outside upper left", ncols=5)
    return figure


def _by_depth(models: Sequence[TrainedModel], losses: Sequence[float | None]) -> dict[int, list[float]]:
    """Return the losses of all models by number of layers, in ascending order; NaN if a model diverged."""
    known = [(model.layers, math.nan if loss is None else loss) for model, loss in zip(models, losses, strict=True)]
    return {layers: [loss for at, loss in known if at == layers] for layers in sorted({at for at, _ in known})}


def _draw(
    figure: Figure, series: Sequence[_Series], label: str, models: Sequence[TrainedModel], *, bands: bool = False
) -> Axes:
    """Draw the mean of every series, its range if `bands`, and a dot for every seed. A dashed line marks 1 - 1/N, the
    loss of answering with the mean of the N candidates. Crosses at the upper edge mark losses off the scale."""
    axes = figure.subplots()
    losses = [loss for line in series for seeds in line.losses.values() for loss in seeds]
    top = max([0.9, *(1.05 * loss for loss in losses if _shown(loss))])
    for nth, line in enumerate(series):
        # Later lines are thinner and on top, and dots are shifted sideways, so that series of the same height stay
        # visible.
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
    axes.set_ylabel(label)
    for chains in sorted({model.chains for model in models}):
        loss = 1 - 1 / chains
        axes.axhline(loss, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), zorder=2)
        axes.annotate(
            f"mean of the {chains} candidates: {loss:.4g}", (0.99, loss), xytext=(0, 3), va="bottom", ha="right",
            xycoords=("axes fraction", "data"), textcoords="offset points", fontsize=6.5,
            bbox={"facecolor": "white", "linewidth": 0, "pad": 1},
        )  # fmt: skip
    return axes


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


def _mark_theory(axes: Axes, theory: Mapping[int, float], deepest: int) -> None:
    """Draw a vertical line in the colour of each hop at its number of layers; equal numbers are drawn side by side."""
    for hop, layers in theory.items():
        if layers > deepest:
            continue
        nth = [other for other in theory if theory[other] == layers].index(hop)
        axes.axvline(
            layers - 0.07 * (nth + 1), color=hop_look(hop).color, linestyle=(0, (1, 1.2)), linewidth=1.3, zorder=1,
            label=f"_theory {hop_label(hop)}",
        )  # fmt: skip


def _shown(loss: float) -> bool:
    return loss <= CEILING  # false for NaN


def section(result: DepthResult) -> Section | None:
    """Return the section with Figure 4; None if no run is finished."""
    study, models = result.study, result.models
    if not models:
        return None
    exact = {hop: depths(hop).causal for hop in range(1, study.hops + 1)}
    lines = {f"Theorem 1, D = {study.hops}": depths(study.hops).theorem_1}
    lines[f"exact causal minimum, D = {study.hops}"] = exact[study.hops]
    lines = {label: layers for label, layers in lines.items() if layers <= max(study.layers, default=0)}
    drawn = [
        PageFigure(
            "figure-4-left",
            final_losses(models, lines),
            f"Figure 4, left. Final validation loss (mean over the last {study.recipe.final_steps} steps) by number of "
            "layers. Each dot is a seed, the line is the mean of the seeds on the scale, and the band is their range. "
            "Vertical lines show how many layers the theory requires.",
        )
    ]
    if any(model.curriculum for model in models):
        caption = (
            "Figure 4, right. The final loss of each hop with the implicit curriculum. A dotted line in the colour of "
            "hop k shows its exact minimum depth floor(log2 k) + 2 (under Assumptions 1 and 2, deepest or shallowest "
            "pairs first). In theory, no run to the left of the line can learn the hop."
        )
        drawn.append(PageFigure("figure-4-right", partial_losses(models, exact), caption))
    reached = ", ".join(f"{counted(reach(layers), 'hop')} with {counted(layers, 'layer')}" for layers in study.layers)
    return Section(
        "Training by depth (Section 7)",
        paragraphs=[
            "With the implicit curriculum (IC), a query asks for every symbol of its chain; without it, only for the "
            "last symbol. A model that knows nothing has a loss of 1. A model that knows the four candidates, but not "
            "which of them is right, has a loss of 0.75, the plateau on which training starts.",
            "The exact minimum depth under a causal mask is floor(log2 D) + 2 (under Assumptions 1 and 2, deepest or "
            f"shallowest pairs first). It allows {reached}. Theorem 1, a lower bound, allows more.",
        ],
        figures=drawn,
    )
