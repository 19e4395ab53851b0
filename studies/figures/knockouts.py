"""The figure of the attention knockouts: which groups of attention a model needs, and in which layers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

from hopscope.plot import INK, PAGE, house, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from studies.knockouts import Knockouts


_MEANING = {
    "binds": "line {0} -> line {0}",
    "joins": "line {0} -> line {1}",
    "reads": "name -> line {0}",
    "ends": "last -> line {0}",
    "fetches": "last -> name",
}
"""What attends to what in a group, by the group's first word."""


def knockouts(found: Sequence[Knockouts]) -> Figure:
    """Draw a panel for each D: a row for each group, a column for all layers, and one for each window of layers."""
    rows = [list(dict.fromkeys(cut.group for cut in each.knockouts if cut.last < each.layers)) for each in found]
    with house():
        figure = new_figure(PAGE, 0.9 + sum(0.45 + 0.17 * len(names) for names in rows))
        panels = figure.subplots(len(found), 1, squeeze=False, height_ratios=[2 + len(names) for names in rows])[:, 0]
        for axes, each, names in zip(panels, found, rows, strict=True):
            spans = sorted(
                {(cut.first, cut.last) for cut in each.knockouts}, key=lambda span: (span[0] - span[1], span)
            )
            by_cell = {(cut.group, cut.first, cut.last): cut for cut in each.knockouts}
            cells = [[by_cell[name, *span].loss for span in spans] for name in names]
            image = axes.imshow(cells, cmap="Blues", vmin=0, vmax=1, aspect="auto")
            for (row, name), (column, span) in product(enumerate(names), enumerate(spans)):
                cut = by_cell[name, *span]
                if cut.interval[0] > each.own + 0.05:
                    colour = "white" if cut.loss > 0.6 else INK
                    axes.text(column, row, f"{cut.loss:.2f}", ha="center", va="center", fontsize=5.5, color=colour)
            axes.grid(visible=False)
            axes.axvline(0.5, color=INK, linewidth=0.8)
            axes.set_yticks(range(len(names)), map(_label, names), fontsize=6.5)
            axes.set_xticks(range(len(spans)), ["all", *(f"{first}-{last}" for first, last in spans[1:])], fontsize=6)
            hops = "1 hop" if each.hops == 1 else f"{each.hops} hops"
            axes.set_title(f"{hops}, n = {each.chosen}", loc="left")
        panels[-1].set_xlabel("removed in these layers")
        figure.colorbar(image, ax=list(panels), label="loss (a guess: 0.75)", shrink=0.5)
    return figure


def _label(group: str) -> str:
    """Return the name of a group with what attends to what: `joins 1: line 1 -> line 2`."""
    kind, _, hop = group.partition(" ")
    return f"{group}: {_MEANING[kind].format(hop, int(hop or 0) + 1)}"
