"""The figure of patched tokens: which property of a line they pass on, after which layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hopscope.plot import INK, PAGE, house, new_figure
from studies.tools.records import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from studies.addresses import Addresses

_TOKENS = {
    "line 1": "patched: line 1",
    "name": "the name asked for",
    "end": "the tokens after it",
    "question": "both: the question",
}
_COLOURS = {"value": "C0", "place": "C1", "name": "C2", "place and name": "C3"}


def addresses(found: Sequence[Addresses]) -> Figure:
    """Draw a row for each D and order of lines, a panel for each group of tokens, and a curve for each property."""
    with house():
        figure = new_figure(PAGE, 0.6 + 1.55 * len(found))
        panels = figure.subplots(len(found), len(_TOKENS), squeeze=False, sharex=True, sharey=True)
        for row, each in zip(panels, found, strict=True):
            for axes, tokens in zip(row, _TOKENS, strict=True):
                for name, colour in _COLOURS.items():
                    for site, style in ((tokens, "-"), (f"another {tokens}", ":")):
                        points = [patch for patch in each.patches if (patch.tokens, patch.property) == (site, name)]
                        if not points:
                            continue
                        at, label = [patch.layer for patch in points], name if style == "-" else None
                        axes.plot(at, [patch.moved for patch in points], style, color=colour, label=label)
                        low, high = zip(*(patch.interval for patch in points), strict=True)
                        axes.fill_between(at, low, high, color=colour, alpha=0.2, linewidth=0)
                if not axes.lines:
                    axes.text(
                        0.5, 0.1, "(one line only)", ha="center", color=INK, transform=axes.transAxes, fontsize=6.5
                    )
            row[0].set_ylabel(f"{counted(each.hops, 'hop')}, {each.lines}\nP(other chain's value)", fontsize=6.5)
        for axes, title in zip(panels[0], _TOKENS.values(), strict=True):
            axes.set_title(title, loc="left", fontsize=8)
        lines, names = panels[0][1].get_legend_handles_labels()
        panels[0][0].legend(
            lines, names, title="taken from a prompt\nwith another ...", fontsize=6.5, title_fontsize=6.5
        )
        for axes in panels[-1]:
            axes.set_xlabel("after layer")
    return figure
