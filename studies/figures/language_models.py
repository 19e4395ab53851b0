"""Figures of pretrained language models: accuracy as in the paper's Figure 2, and by size of the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hopscope.plot import INK, PAGE, hop_look, house, new_figure
from hopscope.statistics import wilson
from studies.language_models import FORMS, OTHERS, SIZES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def figure_2(points: Sequence[dict[str, Any]]) -> Figure:
    """Draw the paper's Figure 2 with a row of panels for each form. Dashed lines are the accuracy of guessing."""
    from matplotlib.patches import Patch

    exact = [point for point in points if point["mode"] == "exact"]
    forms = [form for form in FORMS if any(point["form"] == form for point in exact)]
    with house():
        figure = new_figure(PAGE, 0.5 + 1.7 * len(forms))
        for row, form in zip(figure.subplots(len(forms), 2, squeeze=False), forms, strict=True):
            those = [point for point in exact if point["form"] == form]
            _bars(row[0], [p for p in those if p["formulation"] == "equations"], "hops", range(1, 7))
            _bars(row[1], [p for p in those if p["formulation"] != "equations"], "formulation", OTHERS)
            row[0].set_ylabel(f"accuracy, by {form}" if form == "instruction" else f"accuracy, as {form}")
            row[0].set_xlabel("equations, D")
        handles = [Patch(color=hop_look(2 * number + 1).color, label=model) for number, model in enumerate(SIZES)]
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def _bars(axes: Axes, points: Sequence[dict[str, Any]], by: str, groups: Sequence[Any]) -> None:
    width = 0.8 / len(SIZES)
    for number, model in enumerate(SIZES):
        look = hop_look(2 * number + 1)
        those = [point for point in points if point["model"] == model and point["accuracy"] is not None]
        at = [groups.index(point[by]) + (number - 1) * width for point in those]
        heights = [point["accuracy"] for point in those]
        ends = [[p["accuracy"] - p["low"] for p in those], [p["high"] - p["accuracy"] for p in those]]
        axes.bar(at, heights, width, yerr=ends, color=look.color, error_kw={"elinewidth": 0.8})
    for point in points:
        place = groups.index(point[by])
        axes.hlines(point["guess"], place - 0.45, place + 0.45, color=INK, linestyle="--", linewidth=0.9)
        if point["shortcut"] > point["guess"]:
            axes.hlines(point["shortcut"], place - 0.45, place + 0.45, color=INK, linestyle=":", linewidth=1.1)
    if not points:
        axes.text(0.5, 0.5, "not asked", transform=axes.transAxes, ha="center")
    axes.set_ylim(0, 1.04)
    axes.set_xlim(-0.5, len(groups) - 0.5)
    axes.set_xticks(range(len(groups)), list(map(str, groups)))


def by_size(points: Sequence[dict[str, Any]]) -> Figure:
    """Draw how often the right answer is the likeliest (equations, 95% intervals), against the size of the model."""
    exact = [point for point in points if point["mode"] == "exact" and point["formulation"] == "equations"]
    forms = [form for form in FORMS if any(point["form"] == form for point in exact)]
    with house():
        figure = new_figure(PAGE, 2.7)
        for axes, form in zip(figure.subplots(1, len(forms), sharey=True, squeeze=False)[0], forms, strict=True):
            for hops in range(1, 7):
                those = [point for point in exact if (point["form"], point["hops"]) == (form, hops)]
                sizes, look = [SIZES[point["model"]] for point in those], hop_look(hops)
                values = [point["argmax"] for point in those]
                ranges = [wilson(value * point["n"], point["n"]) for value, point in zip(values, those, strict=True)]
                ends = [[value - low for value, (low, _) in zip(values, ranges, strict=True)]]
                ends += [[high - value for value, (_, high) in zip(values, ranges, strict=True)]]
                axes.errorbar(
                    sizes, values, ends, color=look.color, marker=look.marker, elinewidth=0.8, label=f"D = {hops}"
                )
            axes.axhline(0.25, color=INK, linestyle="--", linewidth=0.9)
            axes.set_xscale("log")
            axes.set_xticks(list(SIZES.values()), [f"{size:g}" for size in SIZES.values()])
            axes.minorticks_off()
            axes.set_xlim(0.11, 1.9)
            axes.set_ylim(0, 1.04)
            axes.set_title(form)
            axes.set_xlabel("billions of weights")
        figure.axes[0].set_ylabel("right answer likeliest")
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=6)
    return figure
