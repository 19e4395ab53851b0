"""Figure 2: accuracy of language models, equations by D and the other formulations by model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hopscope.benchmark.points import Point
from hopscope.errors import InputError
from hopscope.plot.style import INK, PAGE, Look, hop_look, house, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OTHERS = ("lives-with", "kingdoms", "functions", "relatives")
LONGEST_NAME = 36


def figure_2(points: Sequence[Point]) -> Figure:
    """Accuracies with 95% Wilson intervals; dashed is the random guess, dotted the best shortcut that skips lines.

    Raises:
        InputError: no point has an accuracy.
    """
    known = [point for point in points if point.accuracy is not None]
    if not known:
        raise InputError("there is no accuracy to draw: no question got an acceptable answer")
    models = list(dict.fromkeys(point.model for point in known))
    looks = {model: hop_look(number) for number, model in enumerate(models, start=1)}
    with house():
        figure = new_figure(PAGE, 2.8 + 0.16 * ((len(models) + 1) // 2))
        left, right = figure.subplots(1, 2, width_ratios=[1, 1.15])
        _equations(left, [point for point in known if point.formulation == "equations"], looks)
        _others(right, [point for point in known if point.formulation in OTHERS], looks)
        for axes in (left, right):
            axes.set_ylim(-0.02, 1.04)
            axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0%", "25%", "50%", "75%", "100%"])
        handles = [
            _handle(label(model), color=look.color, marker=look.marker, linestyle=look.dash)
            for model, look in looks.items()
        ]
        handles += [
            _handle("random guess", color=INK, linestyle="--", linewidth=0.9),
            _handle("best shortcut", color=INK, linestyle=":", linewidth=1.1),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def label(model: str) -> str:
    """A model's name in a form that matplotlib can write: no mathematics, no control characters, not too long."""
    plain = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in model)
    short = plain if len(plain) <= LONGEST_NAME else plain[: LONGEST_NAME - 1] + "…"
    return short.replace("$", r"\$")


def _equations(axes: Axes, points: Sequence[Point], looks: Mapping[str, Look]) -> None:
    axes.set_title("equations")
    axes.set_xlabel("D, retrieval steps")
    axes.set_ylabel("accuracy")
    if not points:
        axes.text(0.5, 0.5, "not asked", transform=axes.transAxes, ha="center")
        return
    for model, look in looks.items():
        those = sorted((p for p in points if p.model == model), key=lambda p: p.hops)
        if those:
            _errors(axes, [p.hops for p in those], those, look, look.dash)
    axes.axhline(points[0].guess, color=INK, linestyle="--", linewidth=0.9)
    axes.set_xticks(sorted({p.hops for p in points}))


def _others(axes: Axes, points: Sequence[Point], looks: Mapping[str, Look]) -> None:
    axes.set_title("other formulations")
    width = 0.7 / max(1, len(looks))
    for place, formulation in enumerate(OTHERS):
        for number, (model, look) in enumerate(looks.items()):
            those = [p for p in points if p.model == model and p.formulation == formulation]
            at = place + (number - (len(looks) - 1) / 2) * width
            _errors(axes, [at] * len(those), those, look, "none")
        floors = next((p for p in points if p.formulation == formulation), None)
        if floors is not None:
            edges = (place - 0.42, place + 0.42)
            axes.hlines(floors.guess, *edges, color=INK, linestyle="--", linewidth=0.9)
            if floors.shortcut > floors.guess:
                axes.hlines(floors.shortcut, *edges, color=INK, linestyle=":", linewidth=1.1)
    axes.set_xticks(range(len(OTHERS)), OTHERS)
    axes.set_xlim(-0.5, len(OTHERS) - 0.5)


def _errors(axes: Axes, at: Sequence[float], points: Sequence[Point], look: Look, dash: str) -> None:
    """Draw points with their intervals."""
    if not points:
        return
    heights = [p.accuracy or 0.0 for p in points]
    below = [max(0.0, height - p.low) for height, p in zip(heights, points, strict=True)]
    above = [max(0.0, p.high - height) for height, p in zip(heights, points, strict=True)]
    axes.errorbar(
        at, heights, [below, above], color=look.color, marker=look.marker, linestyle=dash, elinewidth=1, capsize=2
    )


def _handle(text: str, **how: Any) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], label=text, **how)
