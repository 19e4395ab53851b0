"""The figure of the escape study: how often a layer is saved, by number of chains and of heads per row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hopscope as hs
from hopscope.plot import BLUE, COLUMN, GREEN, INK, ORANGE, VERMILION, house, new_figure
from hopscope.statistics import clopper_pearson
from studies.escape import EscapeResult, heads_a_row, share
from studies.tools.drawing import n_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLORS = (BLUE, VERMILION, GREEN, ORANGE)
"""Colours by number of heads per row."""

_MARKS = {1: "^", 2: "o", 3: "s"}
"""Marks by number of hops."""


def escape(found: EscapeResult) -> Figure:
    """Draw the share of seeds that answer all hops with fewer layers than Assumption 1 asks for, by number of chains.
    Bars are 95% intervals. Each number of heads per row has a colour, and each D has a mark. The dotted line is theory:
    with at least one head for every row, a layer can be saved with any number of chains.

    Raises:
        InputError: no condition with too few layers has a finished seed.
    """
    if not found.shallow:
        raise hs.InputError("there is nothing to draw: no seed is finished")
    by_heads = sorted({heads_a_row(condition) for condition in found.shallow})
    with house():
        figure = new_figure(COLUMN * 1.4, 2.7)
        axes = figure.subplots()
        axes.axhline(1, color=INK, linewidth=0.8, linestyle=":", label="theory: one head per row is enough")
        for number, heads in enumerate(by_heads):
            for hops, mark in _MARKS.items():
                alike = [each for each in found.shallow if (heads_a_row(each), each.last) == (heads, hops)]
                if not alike:
                    continue
                counts = [share(condition) for condition in alike]
                bounds = [clopper_pearson(*count) for count in counts]
                shares = [learned / n for learned, n in counts]
                low = [value - bound[0] for value, bound in zip(shares, bounds, strict=True)]
                high = [bound[1] - value for value, bound in zip(shares, bounds, strict=True)]
                x = [each.problem.chains * 1.06 ** (hops - 2) * 1.04 ** (number - 1) for each in alike]  # side by side
                label = f"D = {hops}, {heads:g} {'head' if heads == 1 else 'heads'} per row"
                color = _COLORS[number % len(_COLORS)]
                axes.errorbar(x, shares, [low, high], fmt=f"{mark}-", color=color, linewidth=1, label=label)
        chains = sorted({condition.problem.chains for condition in found.shallow})
        axes.set_xscale("log", base=2)
        axes.set_xticks(chains, [str(count) for count in chains])
        axes.set_xlabel("chains N (rows per block)")
        axes.set_ylabel("share of seeds that save layers")
        axes.set_ylim(-0.03, 1.05)
        axes.set_title(f"{n_label(len(condition.seeds) for condition in found.shallow)} seeds each")
        figure.legend(loc="outside upper left", ncols=2)
    return figure
