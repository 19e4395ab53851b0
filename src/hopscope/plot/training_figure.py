"""Loss over time, hop by hop: the order in which hops are learned (Section 7.2; Figure 6 right for transformer D).

A history is what the runs of one depth logged, null where a loss was not a number or a threshold was never crossed:

    {"layers": 4, "hops": [1, 2, 3], "steps": [8, 16, ...], "seeds": [0, 1],
     "partial_losses": [seed][step][hop], "crossings": [seed][hop]}
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hopscope.errors import InputError
from hopscope.plot.style import COLUMN, INK, PAGE, hop_label, hop_look, house, new_figure, thousands
from hopscope.training.metrics import LEARNED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS = 240
"""A longer line is drawn through means of neighbouring points: more than a panel can show would only swell the file."""


def training_figure(histories: Sequence[Mapping[str, Any]], threshold: float = LEARNED) -> Figure:
    """Partial losses over training, a panel a depth, a line a seed and hop, a mark where each falls below `threshold`.

    Args:
        histories: see above; `title` in place of `layers` names a panel otherwise. `crossings` may be absent.
        threshold: drawn across every panel.

    Raises:
        InputError: no history, or one without its fields or with losses that do not match its steps, seeds and hops.
    """
    if not histories:
        raise InputError("a figure of training needs at least one history, got none")
    for history in histories:
        _check(history)
    columns = 1 if len(histories) == 1 else 2 if len(histories) in (2, 4) else 3 if len(histories) < 7 else 4
    rows = math.ceil(len(histories) / columns)
    with house():
        width = COLUMN if columns == 1 else PAGE
        figure = new_figure(width, 0.5 + (2.0 if columns < 3 else 1.6) * rows + (0.4 if rows == 1 else 0))
        panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for axes, history in zip(panels.flat, histories, strict=False):
            draw_history(axes, history, threshold)
        for axes in panels.flat[len(histories) :]:
            axes.set_visible(False)
        for axes in panels[:, 0]:
            axes.set_ylabel("partial loss")
        panels[0][0].set_xlim(0, max(history["steps"][-1] for history in histories))
        for column in range(columns):
            lowest = panels[(len(histories) - 1 - column) // columns][column]
            lowest.set_xlabel("step")
            lowest.tick_params(labelbottom=True)
        _legend(figure, histories, threshold)
    return figure


def draw_history(axes: Axes, history: Mapping[str, Any], threshold: float = LEARNED) -> None:
    """One panel: a line a seed and hop, a mark where it falls below `threshold`."""
    axes.axhline(threshold, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    for seed, losses in zip(history["seeds"], history["partial_losses"], strict=True):
        for place, hop in enumerate(history["hops"]):
            look = hop_look(hop)
            line = [math.nan if row is None or row[place] is None else float(row[place]) for row in losses]
            steps, line = thinned(history["steps"], line)
            axes.plot(
                steps, line, color=look.color, linestyle=look.dash, linewidth=1.0, alpha=0.85,
                label=f"_seed {seed} hop {hop}", zorder=2,
            )  # fmt: skip
    for crossings in history.get("crossings") or ():
        for hop, step in zip(history["hops"], crossings, strict=True):
            if step is not None:
                look = hop_look(hop)
                axes.plot(
                    [step], [threshold], color=look.color, marker=look.marker, markersize=5, linestyle="none",
                    markeredgecolor="white", markeredgewidth=0.7, label=f"_crossing hop {hop}", zorder=4,
                )  # fmt: skip
    layers = history["layers"]
    axes.set_title(history.get("title", f"{layers} layer{'' if layers == 1 else 's'}"))
    axes.set_ylim(0, 1.05)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    thousands(axes)


def _legend(figure: Figure, histories: Sequence[Mapping[str, Any]], threshold: float) -> None:
    from matplotlib.lines import Line2D

    hops = sorted({hop for history in histories for hop in history["hops"]})
    looks = [(hop_label(hop), hop_look(hop)) for hop in hops]
    handles = [
        Line2D([], [], color=look.color, marker=look.marker, linestyle=look.dash, label=label,
               markeredgecolor="white", markeredgewidth=0.5)
        for label, look in looks
    ]  # fmt: skip
    handles.append(
        Line2D([], [], color=INK, linewidth=0.8, linestyle=(0, (4, 3)), label=f"learned below {threshold:g}")
    )
    figure.legend(handles=handles, loc="outside upper left", ncols=min(len(handles), 4 if len(histories) == 1 else 8))


def thinned(steps: Sequence[float], losses: Sequence[float]) -> tuple[list[float], list[float]]:
    """At most `POINTS` points: means over as many neighbours as that takes."""
    width = math.ceil(len(steps) / POINTS)
    blocks = range(0, len(steps), width)
    return (
        [sum(steps[at : at + width]) / len(steps[at : at + width]) for at in blocks],
        [sum(losses[at : at + width]) / len(losses[at : at + width]) for at in blocks],
    )


def _check(history: Mapping[str, Any]) -> None:
    needed = ("layers", "hops", "steps", "seeds", "partial_losses")
    missing = [name for name in needed if name not in history]
    if missing:
        raise InputError(f"a history must have the fields {', '.join(needed)}; missing: {', '.join(missing)}")
    where = f"of the history with {history['layers']} layers"
    seeds, steps, hops = (len(history[name]) for name in ("seeds", "steps", "hops"))
    losses, crossings = history["partial_losses"], history.get("crossings")
    if not seeds or not steps or not hops:
        raise InputError(f"seeds, steps and hops {where} must not be empty")
    for name, table in (("partial_losses", losses), ("crossings", crossings)):
        if table is not None and len(table) != seeds:
            raise InputError(f"{name} {where} must have an entry for each of {seeds} seeds, got {len(table)}")
    for rows in losses:
        if len(rows) != steps:
            raise InputError(f"partial_losses {where} must have a row for each of {steps} steps, got {len(rows)}")
        if any(row is not None and len(row) != hops for row in rows):
            raise InputError(f"partial_losses {where} must have {hops} hops in every row")
    if any(len(row) != hops for row in crossings or ()):
        raise InputError(f"crossings {where} must have {hops} hops for every seed")
