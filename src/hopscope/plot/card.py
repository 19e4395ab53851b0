"""The card of a circuit as a figure: curve with baselines, faithfulness, loss without each path, and the checks."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hopscope.circuits.checks.card import CHECKS, Card, Check, CheckName, Outcome, Patterns
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import imposed_words
from hopscope.errors import InputError
from hopscope.plot.style import BLUE, FAINT, GREEN, INK, ORANGE, PAGE, PURPLE, VERMILION, house, new_figure
from hopscope.statistics import Measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_OUTCOMES: Mapping[Outcome, tuple[str, str]] = {
    "passed": (GREEN, "✓"), "failed": (VERMILION, "✗"), "not asked": (FAINT, "–"),
}  # fmt: skip
"""The colour and mark of a check, by its outcome."""

_LOWEST = -0.5
"""Faithfulness below this value is drawn at this value; only the legend of the curve gives the true number."""

_LINE = 126
"""The number of characters in a line of the figure."""

Bar = tuple[str, Sequence[Measured]]
"""The name of a part of the circuit, and the loss without this part for each measured kind of patterns."""


def card(circuit: Circuit, patterns: Patterns = "own") -> Figure:
    """Plot the card of a circuit, or with `imposed` the card of the circuit of the Appendix E procedure.

    Raises:
        InputError: the circuit does not exist, or its card was not measured.
    """
    imposed = circuit.imposed if patterns == "imposed" else None
    measured, checks = circuit.card if patterns == "own" else None, circuit.checks
    bars: list[Bar] = [
        (_named(path.path.names(circuit.roles)), (path.without, path.without_imposed)) for path in circuit.paths
    ]
    bars += [(f"L{helper.layer}.H{helper.head} {helper.query}", (helper.without,)) for helper in circuit.helpers]
    title, names = circuit.headline, ("own patterns", "imposed patterns")
    if imposed is not None:
        measured, checks = imposed.card, imposed.checks
        bars = [(_named(path.where), (path.without,)) for path in imposed.paths]
        title, names = imposed_words(imposed), ("imposed patterns", "")
    elif circuit.imposed is not None:
        title += "\n" + imposed_words(circuit.imposed)
    if measured is None:
        raise InputError(f"no card with {patterns} patterns was measured; find the circuit, or check it: model.check()")
    words = [line for part in title.split("\n") for line in textwrap.wrap(part, _LINE)]
    with house():
        figure = new_figure(PAGE, max(2.9, 0.24 * len(bars) + 0.9) + 0.17 * len(words) + 0.3)
        figure.suptitle("\n".join(words), fontsize=7.5, x=0.01, ha="left")
        panels = figure.subplot_mosaic([["curve", "paths"], ["shares", "paths"], ["checks", "checks"]],
                                       height_ratios=[3.4, 1.1, 0.55], width_ratios=[1.1, 1])  # fmt: skip
        _draw_curve(panels["curve"], measured)
        _draw_shares(panels["shares"], measured)
        _draw_paths(panels["paths"], bars, names, circuit.max_loss)
        _draw_checks(panels["checks"], checks)
    return figure


def _named(path: tuple[int, int, str, str]) -> str:
    layer, head, query, key = path
    return f"L{layer}.H{head} {query} → {key}"


def _draw_curve(axes: Axes, card: Card) -> None:
    """Draw faithfulness by circuit size, and the baselines; the axis is logarithmic beyond the circuit's own size."""
    size, total, others = card.size.active, card.curve.points[-1][0], card.baselines
    axes.plot(
        *zip(*card.curve.points, strict=True), "o-", color=BLUE, markersize=3, linewidth=1.2, label="this circuit"
    )
    random = f"best of {others.drawn} random" if others.random is not None else ""
    for name, share, mark, color in (
        (random, others.random, "D", ORANGE),
        ("ACDC's rule", others.acdc, "s", PURPLE),
        ("attribution", others.attribution, "^", GREEN),
        ("untrained heads", others.untrained, "v", VERMILION),
    ):
        if share is not None:
            axes.plot([size], [max(share, _LOWEST)], mark, color=color, markersize=5, label=f"{name} {share:.2f}")
    axes.axvline(size, color=INK, linewidth=0.7, linestyle=":", zorder=0)
    axes.axhline(1, color=INK, linewidth=0.7, linestyle="--", zorder=0)
    axes.set_xscale("symlog", linthresh=max(size, 1), linscale=0.5)
    axes.set_xlim(-0.05 * size, 1.15 * total)
    axes.set_xticks([0, size, total], ["0", f"{size}\nactive", f"{total}\nall rows"], minor=False)
    axes.minorticks_off()
    axes.set_ylim(max(axes.get_ylim()[0], _LOWEST - 0.05), None)
    axes.set_title(f"Faithfulness by size: CPR {card.curve.cpr:.2f}, CMD {card.curve.cmd:.2f}")
    axes.legend(loc="lower right", fontsize=6.3, handlelength=1.2, borderaxespad=0.2)


def _draw_shares(axes: Axes, card: Card) -> None:
    """Draw faithfulness under the three ablations of inactive rows, with own and with imposed patterns."""
    marks = {"uniform": ("o", BLUE), "mean": ("s", ORANGE), "resample": ("^", GREEN)}
    for row, shares in enumerate((card.imposed, card.own)):
        for place, (way, (mark, color)) in enumerate(marks.items()):
            label, at = f"rest {'off' if way == 'uniform' else way}" if row else None, float(row)
            if shares.intervals:
                at += 0.2 * (1 - place)  # so that intervals do not cover each other
                axes.plot([max(end, _LOWEST) for end in shares.intervals[place]], [at, at], color=color, linewidth=1.0)
            share = max(getattr(shares, way), _LOWEST)
            axes.plot([share], [at], mark, color=color, markersize=5, label=label, clip_on=False)
    axes.axvline(1, color=INK, linewidth=0.7, linestyle="--", zorder=0)
    axes.set_yticks([0, 1], ["imposed", "own"])
    axes.set_ylim(-0.6, 1.6)
    axes.set_xlim(min(0.0, axes.get_xlim()[0]), max(1.1, axes.get_xlim()[1]))
    axes.grid(True, axis="both")
    axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.38), ncols=3, fontsize=6.5, handlelength=1.0)


def _draw_paths(axes: Axes, bars: Sequence[Bar], names: Sequence[str], max_loss: float) -> None:
    """Draw the loss without each path, with its interval, and the threshold."""
    least = min([max_loss, *(loss.interval[0] for _, losses in bars for loss in losses)])
    left = max(least / 1.5, max_loss / 50)
    for number, (name, color) in enumerate(zip(names, (BLUE, ORANGE), strict=True)):
        if all(losses[number].mean <= left for _, losses in bars if number < len(losses)):
            name = f"{name} (below {left:.2g})"
        for row, (_, losses) in enumerate(bars):
            if number < len(losses):
                end, (low, high) = max(losses[number].mean, left), losses[number].interval
                spread = [[max(end - low, 0)], [max(high - end, 0)]]
                axes.barh(row + (0.4 * number - 0.2) * bool(names[1]), end, height=0.36,
                          color=color, xerr=spread, error_kw={"elinewidth": 0.7, "ecolor": INK},
                          label=name if row == 0 else None)  # fmt: skip
    axes.axvline(max_loss, color=VERMILION, linewidth=1.0, linestyle="--", label=f"threshold {max_loss:.3g}")
    axes.set_xscale("log")
    axes.xaxis.set_minor_formatter("")
    axes.set_xlim(left, None)
    axes.set_yticks(range(len(bars)), [name for name, _ in bars], fontsize=6.5)
    axes.invert_yaxis()
    axes.grid(True, axis="x")
    axes.grid(False, axis="y")
    axes.set_title("Loss without each path, 95% intervals")
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.12), ncols=3, fontsize=6.5, handlelength=1.2)


def _draw_checks(axes: Axes, checks: Mapping[CheckName, Check]) -> None:
    axes.set_axis_off()
    axes.set_xlim(0, len(CHECKS))
    axes.set_ylim(0, 1)
    for place, check in enumerate(checks.values()):
        color, mark = _OUTCOMES[check.outcome]
        box = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": color, "linewidth": 1.4}
        words = f"{mark} {check.name.replace('_', ' ')}"
        axes.text(place + 0.5, 0.5, words, ha="center", va="center", fontsize=7, color=INK, bbox=box)
