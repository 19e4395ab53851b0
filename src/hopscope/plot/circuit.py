"""A model's circuit in the manner of Figure 5, and its attention maps (Appendix C)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import CircuitPath
from hopscope.plot.style import BLUE, FAINT, GREEN, INK, PURPLE, VERMILION, house, new_figure
from hopscope.problem.retrieval import Problem, RetrievalProblem
from hopscope.problem.roles import answer_role
from hopscope.theory.scene import place_in_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

_INTO = {"query": VERMILION, "key": PURPLE, "value": BLUE, "answer": GREEN}
"""Colours by what a path mostly feeds."""

_ACROSS, _SIDE = 8, 0.95
"""Attention maps: how many are in a row at most where layers have one head, and their side in inches."""


@dataclass(frozen=True)
class Arrow:
    """Paths of one layer between the same two roles, drawn as one.

    Attributes:
        row: its layer, counted among the layers in use, from 1.
        query: the role that attends.
        key: the role attended to.
        heads: the heads that share it.
        weight: the largest mean attention among them.
        worst: the largest loss without one of them.
        into: what it feeds most; empty if nothing was seen to change.
    """

    row: int
    query: str
    key: str
    heads: tuple[int, ...]
    weight: float
    worst: float
    into: str


def arrows(circuit: Circuit) -> list[Arrow]:
    """The arrows of a circuit, layer by layer; layers without a path are left out."""
    layers = _layers(circuit)
    together: dict[tuple[int, str, str], list[CircuitPath]] = {}
    for path in circuit.paths:
        layer, _, query, key = path.path.names(circuit.roles)
        together.setdefault((layer, query, key), []).append(path)
    drawn = []
    for (layer, query, key), paths in sorted(together.items()):
        feeds = sorted((feed for path in paths for feed in path.feeds), key=lambda feed: -feed.change)
        drawn.append(
            Arrow(
                row=layers.index(layer) + 1,
                query=query,
                key=key,
                heads=tuple(path.path.head + 1 for path in paths),
                weight=max(path.weight for path in paths),
                worst=max(path.without.mean for path in paths),
                into=feeds[0].into if feeds else "",
            )
        )
    return drawn


def _layers(circuit: Circuit) -> list[int]:
    """The layers with a path, from 1."""
    return sorted({path.path.layer + 1 for path in circuit.paths})


def figure_5(circuit: Circuit) -> Figure:
    """The circuit of one model. For a model without one the figure is empty and says so."""
    drawn = arrows(circuit)
    rows = max((arrow.row for arrow in drawn), default=1)
    width = max(3.6, 0.62 * len(_columns(circuit)) + 1.4)
    with house():
        figure = new_figure(width, 0.95 * rows + 1.3)
        axes = figure.subplots()
        draw_circuit(axes, circuit, drawn)
    return figure


def draw_circuit(axes: Axes, circuit: Circuit, drawn: Sequence[Arrow]) -> None:
    """Draw the circuit's arrows, from what is read (below) to where it is written (above), and name their colours."""
    at = _columns(circuit)
    layers = _layers(circuit)
    top = max(len(layers), 1)
    axes.set_axis_off()
    for role, x in at.items():
        axes.plot([x, x], [0, top], color=FAINT, linewidth=1.2, zorder=0)
        for row in range(top + 1):
            axes.plot([x], [row], "o", color="white", markeredgecolor=INK, markersize=4, markeredgewidth=0.8, zorder=3)
        axes.annotate(_label(circuit, role), (x, 0), (0, -9), textcoords="offset points", ha="center", va="top")
    for arrow in drawn:
        _draw_arrow(axes, (at[arrow.key], arrow.row - 1), (at[arrow.query], arrow.row), arrow)
    for row, layer in enumerate(layers, start=1):
        heads = sorted({path.path.head + 1 for path in circuit.paths if path.path.layer + 1 == layer})
        name = f"layer {layer}" + (f"\nhead{'s' if len(heads) > 1 else ''} " if circuit.heads > 1 else "")
        name += ", ".join(map(str, heads)) if circuit.heads > 1 else ""
        axes.text(min(at.values()) - 0.6, row - 0.5, name, ha="right", va="center", fontsize=7)
    asker = list(at)[-1]
    axes.annotate("answer", (at[asker], top), (0, 7), textcoords="offset points", ha="center", fontsize=7)
    if not circuit.found:
        axes.text(sum(at.values()) / len(at), 0.5, "no circuit", ha="center", va="center", fontsize=11)
    axes.set_xlim(min(at.values()) - 2.6, max(at.values()) + 0.6)
    axes.set_ylim(-0.5, top + 0.4)
    _name_colours(axes, drawn)


def _draw_arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], arrow: Arrow) -> None:
    """An arrow with its number a little above its middle."""
    style = {"arrowstyle": "-|>", "color": _INTO.get(arrow.into, INK), "linewidth": 0.8 + 1.4 * arrow.weight,
             "shrinkA": 3, "shrinkB": 3, "mutation_scale": 9}  # fmt: skip
    axes.annotate("", end, start, arrowprops=style, zorder=2)
    label = f"{arrow.worst:.2f}" + (f" ×{len(arrow.heads)}" if len(arrow.heads) > 1 else "")
    x, y = (0.42 * below + 0.58 * above for below, above in zip(start, end, strict=True))
    box = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"}
    axes.text(x, y, label, ha="center", va="center", fontsize=6, color=INK, bbox=box, zorder=4)


def _name_colours(axes: Axes, drawn: Sequence[Arrow]) -> None:
    """Name the colours that occur, below the circuit; none where no uses were looked for."""
    from matplotlib.lines import Line2D

    names = {"query": "feeds a query", "key": "feeds a key", "value": "feeds a value", "answer": "feeds the answer"}
    names |= {"": "no use seen"}
    used = [into for into in names if any(arrow.into == into for arrow in drawn)]
    if used and used != [""]:
        handles = [Line2D([], [], color=_INTO.get(into, INK), label=names[into]) for into in used]
        axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=len(handles), fontsize=6.5)


def _columns(circuit: Circuit) -> dict[str, float]:
    """Where each role stands: one chain in the order of the sequence, with a gap after every pair.

    Of a text's further roles only those that a path has are shown, and the answer.
    """
    names, last = circuit.roles, len(circuit.problem.roles) - 1
    further = {role for path in circuit.paths for role in path.path[2:] if role > last}
    further |= {len(names) - 1} if circuit.text else set()
    roles = sorted({*range(last + 1), *further}, key=lambda role: _place(circuit.problem, role))
    blocks = [_place(circuit.problem, role)[0] for role in roles]
    return {names[role]: place + 0.5 * block for place, (role, block) in enumerate(zip(roles, blocks, strict=True))}


def _label(circuit: Circuit, role: str) -> str:
    problem, number = circuit.problem, circuit.roles.index(role)
    symbol, asked = problem.symbol_of(number), number == len(problem.roles) - 1
    if not isinstance(problem, RetrievalProblem):
        return role
    if problem.graph != "chain":
        return problem.facts.symbols[symbol] + ("?" if not problem.fact_of(number) else "")
    if symbol >= 0:
        return f"$x_{{{symbol}}}${'?' if asked else ''}"
    if problem.fact_of(number):
        return role[-1]
    return "last" if number == answer_role(circuit.hops) else "…"


def _place(problem: Problem, role: int) -> tuple[int, int]:
    """The block of a role, and its place within the row."""
    if not isinstance(problem, RetrievalProblem):
        return role, 0
    if problem.graph == "chain":
        return place_in_text(problem, role)
    step = problem.fact_of(role)
    return problem.blocks.index(step) if step else len(problem.blocks), role


def appendix_c(
    maps: Float[Tensor, "layer head role role"], problem: RetrievalProblem, circuit: Circuit | None = None
) -> Figure:
    """Mean attention by role, a panel for each head, layers downward; layers of one head each are wrapped into rows.

    Rows are queries and columns keys, in the order of the sequence; those on the left and at the bottom are named. What
    a row lacks to 1 goes to other chains.

    Args:
        maps: mean attention, with roles by number, as from `hs.Model.attention()`.
        problem: the problem whose roles there are.
        circuit: the circuit whose paths are framed; None for no frames.
    """
    from matplotlib.patches import Rectangle

    roles = [
        role for step in (*problem.blocks, 0) for role, place in enumerate(problem.facts.places) if place.step == step
    ]
    names = [problem.roles[role] for role in roles]
    framed = {path.path.names(circuit.roles) for path in circuit.paths} if circuit is not None else set()
    layers, heads = maps.shape[:2]
    columns = heads if heads > 1 else min(layers, _ACROSS)
    rows = -(-layers * heads // columns)
    with house():
        figure = new_figure(max(3.4, _SIDE * columns + 0.3), _SIDE * rows * 1.12 + 0.5)
        figure.suptitle("Mean attention by role", fontsize=8)
        panels = figure.subplots(rows, columns, squeeze=False).flat
        for axes in panels[layers * heads :]:
            axes.set_axis_off()
        for number, (layer, head) in enumerate(product(range(layers), range(heads))):
            axes = panels[number]
            _draw_map(axes, maps[layer, head, roles][:, roles].detach().numpy(), f"{layer + 1}.{head + 1}")
            if number % columns == 0:
                axes.set_yticks(range(len(names)), names, fontsize=4)
            if number + columns >= layers * heads:  # there is none below
                axes.set_xticks(range(len(names)), names, rotation=90, fontsize=4)
            for (row, query), (column, key) in product(enumerate(names), repeat=2):
                if (layer + 1, head + 1, query, key) in framed:
                    corner = (column - 0.5, row - 0.5)
                    axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=VERMILION, linewidth=1.0))
    return figure


def _draw_map(axes: Axes, values: NDArray[Any], title: str) -> None:
    axes.imshow(values, cmap="Blues", vmin=0, vmax=1, interpolation="nearest", aspect="equal")
    axes.set_title(title, fontsize=6, pad=2)
    axes.grid(False)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.tick_params(length=0, pad=1)
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_linewidth(0.4)
        spine.set_color(INK)
