"""Circuits of language models: a row for each model, a column for each number of hops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hopscope.circuits.record import Circuit
from hopscope.errors import InputError
from hopscope.plot.figure_5 import arrows, draw_circuit
from hopscope.plot.style import house, new_figure
from hopscope.words import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def text_circuits(circuits: Sequence[Circuit]) -> Figure:
    """All circuits that were found, a panel each.

    Raises:
        InputError: no circuit was found.
    """
    found = [one for one in circuits if one.found]
    if not found:
        raise InputError("there is nothing to draw: no model has a circuit")
    hops, names = sorted({one.hops for one in found}), sorted({_name(one) for one in found})
    with house():
        widths = [2 * one + 5 for one in hops]  # positions of a chain, and room for the names of heads
        figure = new_figure(0.75 * sum(widths), 3.1 * len(names))
        panels = figure.subplots(len(names), len(hops), squeeze=False, width_ratios=widths)
        for axes in panels.flat:
            axes.set_axis_off()
        for one in found:
            axes = panels[names.index(_name(one))][hops.index(one.hops)]
            draw_circuit(axes, one, arrows(one))
            certified = "certified" if one.certified else "not certified"
            axes.set_title(f"{_name(one)}, {counted(one.hops, 'hop')}, {certified}", fontsize=8)
    return figure


def _name(circuit: Circuit) -> str:
    return circuit.text.name.replace("-", " ") if circuit.text else str(circuit.number)
