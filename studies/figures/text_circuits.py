"""Circuits of language models: a row for each model, a column for each number of hops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hopscope.circuits.circuit import Circuit
from hopscope.errors import InputError
from hopscope.plot.circuit import Arrow, arrows, colours, draw_circuit
from hopscope.plot.style import house, new_figure
from hopscope.words import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ACROSS, _UP = 0.4, 0.36
"""Inches of a position, and of a layer."""


def text_circuits(circuits: Sequence[Circuit]) -> Figure:
    """All circuits that were found, a panel each.

    Raises:
        InputError: no circuit was found.
    """
    found = [one for one in circuits if one.found]
    if not found:
        raise InputError("there is nothing to draw: no model has a circuit")
    hops, names = sorted({one.hops for one in found}), sorted({_name(one) for one in found})
    drawn = {(_name(one), one.hops): (one, arrows(one)) for one in found}
    every = [arrow for _, of_one in drawn.values() for arrow in of_one]
    with house():
        widths = [2 * one + 5 for one in hops]  # positions of a chain, and room for the names of heads
        heights = [max(arrow.row for _, of_one in _of(name, drawn) for arrow in of_one) + 1.5 for name in names]
        figure = new_figure(_ACROSS * sum(widths), _UP * sum(heights) + 0.3)
        panels = figure.subplots(len(names), len(hops), squeeze=False, width_ratios=widths, height_ratios=heights)
        for axes in panels.flat:
            axes.set_axis_off()
        for (name, asked), (one, of_one) in drawn.items():
            axes = panels[names.index(name)][hops.index(asked)]
            draw_circuit(axes, one, of_one, room=1.3)
            certified = "certified" if one.certified else "not certified"
            axes.set_title(f"{name}, {counted(asked, 'hop')}: {certified}", fontsize=7.5)
        handles = colours(every)
        if handles:
            figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def _of(name: str, drawn: Mapping[tuple[str, int], tuple[Circuit, list[Arrow]]]) -> list[tuple[Circuit, list[Arrow]]]:
    return [of_one for (one, _), of_one in drawn.items() if one == name]


def _name(circuit: Circuit) -> str:
    return circuit.text.name.replace("-", " ") if circuit.text else str(circuit.number)
