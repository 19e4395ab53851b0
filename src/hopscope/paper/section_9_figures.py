"""Figure 7: a circuit, and when each of its paths emerges. Appendix D: every path over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hopscope.circuits.circuit import Circuit
from hopscope.emergence.history import Emergence, PathHistory
from hopscope.plot.circuit import arrows, draw_circuit, explain
from hopscope.plot.style import BLUE, COLUMN, INK, PAGE, hop_label, hop_look, house, new_figure, thousands
from hopscope.training.metrics import learned_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def figure_7(emergence: Emergence, circuit: Circuit) -> Figure:
    """Left: the circuit. Right: the epoch at which each of its paths crosses 0.5, with 95% intervals.

    Args:
        emergence: the emergence of one model's circuit.
        circuit: the circuit that was followed.
    """
    paths = sorted(emergence.paths, key=_when)
    drawn = arrows(circuit)
    layers = max((arrow.row for arrow in drawn), default=1)
    with house():
        figure = new_figure(PAGE + 0.6, max(2.8, 0.21 * len(paths) + 1.1, 0.62 * layers + 1.0))
        left, right = figure.subplots(1, 2, width_ratios=(1.0, 0.85))
        draw_circuit(left, circuit, drawn)
        explain(left, drawn)
        _draw_crossings(right, emergence, paths)
    return figure


def _draw_crossings(axes: Axes, emergence: Emergence, paths: Sequence[PathHistory]) -> None:
    end = emergence.steps[-1] / emergence.steps_per_epoch
    for row, path in enumerate(paths):
        look, found = hop_look(path.hop), path.crossing
        if found.step is None:
            axes.text(end, row, "never", ha="right", va="center", fontsize=7, color=look.color)
            continue
        low = found.step if found.low is None else found.low
        high = emergence.steps[-1] if found.high is None else found.high
        ends = [step / emergence.steps_per_epoch for step in (low, high)]
        axes.plot(ends, [row, row], color=look.color, linewidth=1.0, zorder=2)
        axes.plot(
            [found.step / emergence.steps_per_epoch], [row], color=look.color, marker=look.marker, markersize=5,
            markeredgecolor="white", markeredgewidth=0.6, linestyle="none", zorder=3,
        )  # fmt: skip
    learned: dict[int, list[int]] = {}
    for hop, step in zip(emergence.asked, emergence.plateau.learned, strict=False):
        if step is not None:
            learned.setdefault(step, []).append(hop)
    height, last = 0, -math.inf
    for step, hops in sorted(learned.items()):
        epoch, color = step / emergence.steps_per_epoch, hop_look(hops[0]).color
        # Names of lines that stand close together are written one above the other.
        height, last = (height + 1 if epoch - last < 0.05 * len(hops) * end else 0), epoch
        axes.axvline(epoch, color=color, linewidth=0.9, linestyle=":", zorder=1)
        axes.annotate(
            ", ".join(map(hop_label, hops)), (epoch, 1), xycoords=("data", "axes fraction"), xytext=(0, 1 + 8 * height),
            textcoords="offset points", color=color, fontsize=7, ha="center", va="bottom",
        )  # fmt: skip
    axes.set_yticks(range(len(paths)), [path_name(path, emergence) for path in paths])
    axes.set_ylim(len(paths) - 0.5, -0.5)
    axes.set_xlim(0, end * 1.01)
    below = f"loss below {learned_below(emergence.chains):.2g}"
    axes.set_xlabel(f"epoch ({emergence.steps_per_epoch} steps) of emergence\ndotted: {below}")


def _when(path: PathHistory) -> tuple[float, int]:
    return (math.inf if path.crossing.step is None else path.crossing.step, path.layer)


def path_name(path: PathHistory, emergence: Emergence) -> str:
    """The path's name: layer, head where there are several, query and key."""
    head = f".{path.head}" if emergence.heads > 1 else ""
    return f"{path.layer}{head}   {path.query} → {path.key}"


def appendix_d(emergence: Emergence) -> Figure:
    """A panel for each path: its mean attention, how often its key comes first, and what its absence costs."""
    columns = min(4, len(emergence.paths))
    rows = math.ceil(len(emergence.paths) / columns)
    costliest = max(1.0, *(max(path.change) for path in emergence.paths))
    with house():
        figure = new_figure(COLUMN if columns == 1 else PAGE, 1.45 * rows + 0.6)
        panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for axes, path in zip(panels.flat, emergence.paths, strict=False):
            color = hop_look(path.hop).color
            axes.axhline(0.5, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
            axes.plot(emergence.steps, path.attention, color=color, linewidth=1.5, zorder=3)
            axes.plot(emergence.steps, path.foremost, color=color, linewidth=0.9, linestyle=":", zorder=2)
            axes.plot(emergence.steps, path.change, color=INK, linewidth=0.8, zorder=2)
            if path.crossing.step is not None:
                axes.plot(
                    [path.crossing.step], [0.5], color=color, marker="o", markersize=4.5, markeredgecolor="white",
                    markeredgewidth=0.6, zorder=4,
                )  # fmt: skip
            axes.set_title(path_name(path, emergence), fontsize=7.5)
            axes.set_ylim(min(0.0, *path.change) - 0.03, 1.05 * costliest)
            thousands(axes)
        for axes in panels.flat[len(emergence.paths) :]:
            axes.set_visible(False)
        for column in range(columns):
            lowest = panels[(len(emergence.paths) - 1 - column) // columns][column]
            lowest.set_xlabel("step")
            lowest.tick_params(labelbottom=True)
        _legend(figure)
    return figure


def _legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    figure.legend(
        handles=[
            Line2D([], [], color=BLUE, linewidth=1.5, label="mean attention (colour: hop)"),
            Line2D([], [], color=BLUE, linewidth=0.9, linestyle=":", label="share of queries where it is the largest"),
            Line2D([], [], color=INK, linewidth=0.8, label="rise of the loss without it"),
        ],
        loc="outside upper left",
        ncols=3,
    )
