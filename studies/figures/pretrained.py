"""The figure of pretrained models: the depth of each kind of path, compared with models trained on the problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hopscope.plot import PAGE, hop_look, house, new_figure
from studies.pretrained import KINDS, KnownCircuit

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def kinds(circuits: Sequence[KnownCircuit]) -> Figure:
    """Draw a row for each group, with a dot per path at its relative depth; the area is the loss without the path."""
    from matplotlib.lines import Line2D

    groups = list(dict.fromkeys(circuit.group for circuit in circuits))
    with house():
        figure = new_figure(PAGE, 0.9 + 0.42 * len(groups))
        axes = figure.subplots()
        for circuit in circuits:
            for place, kind in enumerate(KINDS):
                paths, look = circuit.of_kind(kind), hop_look(place + 1)
                rows = [groups.index(circuit.group) + 0.18 * (place - 1.5)] * len(paths)
                areas = [4 + 40 * min(path.loss, 1.5) for path in paths]
                at = [path.layer / circuit.layers for path in paths]
                axes.scatter(at, rows, areas, color=look.color, marker=look.marker, alpha=0.55, linewidths=0)
        axes.set_yticks(range(len(groups)), [f"{group} ({_count(circuits, group)})" for group in groups])
        axes.set_ylim(len(groups) - 0.4, -0.6)
        axes.set_xlim(0, 1.03)
        axes.set_xlabel("layer, as a share of all; area: loss without the path; in brackets: circuits")
        looks = [hop_look(place + 1) for place in range(len(KINDS))]
        handles = [
            Line2D([], [], linestyle="", marker=look.marker, color=look.color, label=kind)
            for kind, look in zip(KINDS, looks, strict=True)
        ]
        figure.legend(handles=handles, loc="outside upper center", ncols=4)
    return figure


def _count(circuits: Sequence[KnownCircuit], group: str) -> int:
    return sum(circuit.group == group for circuit in circuits)
