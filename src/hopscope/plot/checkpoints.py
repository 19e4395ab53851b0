"""Plot a language model's circuit over checkpoints: when the model answers, and when each path attends and counts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hopscope.plot.style import BLUE, ORANGE, PAGE, hop_look, house, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hopscope.emergence.language import TextEmergence

_LABELS = 6
"""The largest number of checkpoints whose folder is named below a panel."""


def checkpoints(found: TextEmergence) -> Figure:
    """Plot accuracy, the attention along each path, and the rise of the loss without each path, over checkpoints.

    `found` comes from `hopscope.emergence.language.follow_checkpoints`, or from its file with `TEXT_EMERGENCE.read`.
    """
    points = found.checkpoints
    places = range(len(points))
    with house():
        figure = new_figure(PAGE, 2.4 + 0.16 * ((len(found.paths) + 1) // 2))
        answers, attention, change = figure.subplots(1, 3, sharex=True)
        for name, color, dash in (("full", BLUE, "-"), ("alone", ORANGE, "--")):
            label = "the model" if name == "full" else "the circuit alone"
            answers.plot(places, [getattr(point, name).accuracy for point in points], dash, color=color, label=label)
        answers.set(title="Share of right answers", ylim=(0, 1.05))
        answers.legend(loc="lower right")
        for number, path in enumerate(found.paths):
            look = hop_look(number + 1)
            for axes, name in ((attention, "attention"), (change, "change")):
                values = [getattr(point, name)[number] for point in points]
                axes.plot(places, values, look.dash, color=look.color, label=path if axes is attention else None)
        attention.set(title="Attention along each path", ylim=(0, 1.05))
        change.set(title="Rise of the loss without it")
        every = max(1, -(-len(points) // _LABELS))
        names = [Path(point.folder).name.removeprefix("step-").lstrip("0") or "0" for point in points]
        for axes in (answers, attention, change):
            axes.set_xticks(places[::every], names[::every], rotation=45, ha="right")
            axes.set_xlabel("checkpoint")
        figure.legend(handles=attention.lines, loc="outside lower center", ncols=2)
    return figure
