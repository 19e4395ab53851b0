"""Figures 3 and 8, and what the query can know after each layer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hopscope.errors import InputError
from hopscope.plot.style import BLUE, FORMATS, INK, VERMILION, house, new_figure, write
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import symbol_of
from hopscope.theory.information_flow import Flow, flow_until
from hopscope.theory.scene import place_in_sequence, problem_scene, reachability, role_at

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SYMBOL, PLACE = BLUE, VERMILION
"""The colours of symbols and of places."""

_EMPTY = "#EEEEEE"


def figure_3(problem: RetrievalProblem) -> Figure:
    """The chain in the order of the sequence, with what its positions share; below, the growth of its query's
    knowledge.

    The growth is drawn twice, without a mask and with one; each row's rule is Lemma 3's limit on a run from x0.
    """
    problem = replace(problem, chains=1)
    width = min(16.0, max(6.5, 0.75 * (2 * problem.hops + 1)))
    flows = [_whole(replace(problem, causal=causal)) for causal in (False, True)]
    heights = [2.6, *(0.32 * len(flow.holdings) + 0.6 for flow in flows)]
    with house():
        figure = new_figure(width, sum(heights) + 0.4)
        axes = figure.subplots(3, 1, height_ratios=heights)
        draw_shared(axes[0], problem)
        draw_growth(axes[1], flows[0], "no mask")
        draw_growth(axes[2], flows[1], f"causal mask, {problem.order_in_words}")
    return figure


def draw_shared(axes: Axes, problem: RetrievalProblem) -> None:
    """Draw Figure 3: one chain's positions as they stand in the sequence; edges above for symbols, below for places."""
    hops = problem.hops
    alone = replace(problem, chains=1)
    ends = [place_in_sequence(alone, 0, role_at(i, hops)) for i in range(2 * hops + 1)]
    # A gap after every pair, where the pairs of other chains stand.
    at = [place + place // 2 * 0.8 for place in ends]
    for i in range(2 * hops):
        is_symbol = i % 2 == 0
        _arc(axes, at[i], at[i + 1], 1 if is_symbol else -1, SYMBOL if is_symbol else PLACE)
    size = max(5.0, min(11.0, 130 / (2 * hops + 1)))
    for role in range(2 * hops + 1):
        label = f"$x_{{{symbol_of(role, hops)}}}$"
        axes.text(at[reachability(role, hops)], 0, label, ha="center", va="center", fontsize=size, color=INK)
    widest = max(abs(at[i] - at[i + 1]) for i in range(2 * hops))
    axes.set_xlim(min(at) - 0.8, max(at) + 0.8)
    axes.set_ylim(-_rise(1.0) - 0.4, _rise(widest) + 0.4)
    axes.set_title(f"What positions share before any layer, D = {hops}")
    axes.text(1, 1.02, "above: the same symbol", transform=axes.transAxes, fontsize=9, color=SYMBOL, ha="right")
    axes.text(1, -0.02, "below: the same pair", transform=axes.transAxes, fontsize=9, color=PLACE, ha="right", va="top")
    axes.axis("off")


def draw_growth(axes: Axes, flow: Flow, title: str) -> None:
    """Draw a row for each layer and a column for each piece from x0 to x{D}, filled where the query can hold it."""
    from matplotlib.patches import Rectangle

    chain = flow.scene.pieces[1 : flow.scene.target + 1]
    for layer in range(len(flow.holdings)):
        held = set(flow.asked(layer))
        for column, name in enumerate(chain):
            color = (SYMBOL if name[0] == "x" else PLACE) if name in held else _EMPTY
            axes.add_patch(Rectangle((column + 0.06, layer + 0.1), 0.88, 0.8, color=color, linewidth=0))
        limit = min(len(chain), 3**layer + 1)
        axes.plot([limit, limit], [layer + 0.05, layer + 0.95], color="black", linewidth=1.5)
    axes.set_xlim(0, len(chain) + 0.05)
    axes.set_ylim(len(flow.holdings), 0)
    step = max(1, len(chain) // 40)
    labels = [f"${name[0]}_{{{name[1:]}}}$" for name in chain[::step]]
    axes.set_xticks([column + 0.5 for column in range(0, len(chain), step)], labels, fontsize=8)
    axes.set_yticks(
        [layer + 0.5 for layer in range(len(flow.holdings))], ["start", *map(str, range(1, len(flow.holdings)))]
    )
    axes.set_ylabel("after layer", fontsize=9)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    layers = len(flow.holdings) - 1
    text = f"What the query can know, {title}: {layers} layers. Rule: Lemma 3's limit"
    axes.set_title(text)


def save_flow(problem: RetrievalProblem, path: Path) -> None:
    """Draw the figure and write it, in the format that the file's name asks for.

    Raises:
        InputError: the name does not end in .png, .svg or .pdf.
    """
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        raise InputError(f"a figure's name must end in .png, .svg or .pdf, got {path.name!r}")
    write(figure_3(problem), path)


def _whole(problem: RetrievalProblem) -> Flow:
    return flow_until(problem_scene(problem))


def _arc(axes: Axes, start: float, end: float, side: int, color: str) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    base, top = side * 0.28, side * (0.28 + _rise(abs(end - start)) / 0.75)
    points = [(start, base), (start, top), (end, top), (end, base)]
    codes = [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4]
    axes.add_patch(PathPatch(Curve(points, codes), fill=False, edgecolor=color, linewidth=1.6))


def _rise(span: float) -> float:
    """How far above its ends an arc of this span reaches."""
    return float(0.35 + 0.25 * span**0.6)
