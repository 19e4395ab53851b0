"""A circuit in the manner of Figure 5: layers upward, the positions of one chain across, paths as arrows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import CircuitPath
from hopscope.plot.style import BLUE, FAINT, GREEN, INK, PURPLE, VERMILION, house, new_figure
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import answer_role
from hopscope.theory.scene import place_in_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_INTO = {"query": VERMILION, "key": PURPLE, "value": BLUE, "answer": GREEN}
"""Colours by what a path mostly feeds."""

_HIGH = 0.3
"""The height of an arrow's number, in layers."""


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
    for one in circuit.paths:
        layer, _, query, key = one.path.names(circuit.roles)
        together.setdefault((layer, query, key), []).append(one)
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
                worst=max(path.natural_mse for path in paths),
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
        explain(axes, drawn)
    return figure


def draw_circuit(axes: Axes, circuit: Circuit, drawn: Sequence[Arrow], room: float = 0.0) -> None:
    """Draw the arrows from what is read (below) to where it is written (above); `explain` names their colours.

    Args:
        axes: where to draw.
        circuit: the circuit.
        drawn: its arrows.
        room: the width of an arrow's number, in columns; of two that would stand closer, one is moved down its arrow.
    """
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
        _draw_arrow(axes, at, arrow)
    taken: list[tuple[float, float]] = []
    for arrow in sorted(drawn, key=lambda arrow: abs(at[arrow.query] - at[arrow.key])):  # the longer can make room
        taken.append(_write_number(axes, at, arrow, taken, room))
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


def _draw_arrow(axes: Axes, at: dict[str, float], arrow: Arrow) -> None:
    start, end = (at[arrow.key], arrow.row - 1), (at[arrow.query], arrow.row)
    color = _INTO.get(arrow.into, INK)
    axes.annotate(
        "",
        end,
        start,
        arrowprops={
            "arrowstyle": "-|>",
            "color": color,
            "linewidth": 0.8 + 1.4 * arrow.weight,
            "shrinkA": 3,
            "shrinkB": 3,
            "mutation_scale": 9,
        },
        zorder=2,
    )


def _write_number(
    axes: Axes, at: dict[str, float], arrow: Arrow, taken: Sequence[tuple[float, float]], room: float
) -> tuple[float, float]:
    """Write an arrow's number on it, away from those that are there. Returns where it stands."""
    start, end = (at[arrow.key], arrow.row - 1), (at[arrow.query], arrow.row)
    label = f"{arrow.worst:.2f}" + (f" ×{len(arrow.heads)}" if len(arrow.heads) > 1 else "")
    places = [((1 - t) * start[0] + t * end[0], (1 - t) * start[1] + t * end[1]) for t in (0.58, 0.3, 0.8)]
    middle = next((place for place in places if _free(place, taken, room)), places[0])
    box = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"}
    axes.text(*middle, label, ha="center", va="center", fontsize=6, color=INK, bbox=box, zorder=4)
    return middle


def _free(place: tuple[float, float], taken: Sequence[tuple[float, float]], room: float) -> bool:
    return all(abs(place[0] - x) >= room or abs(place[1] - y) >= _HIGH for x, y in taken)


def explain(axes: Axes, drawn: Sequence[Arrow]) -> None:
    """Name the colours that occur, below the circuit."""
    handles = colours(drawn)
    if handles:
        axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=len(handles), fontsize=6.5)


def colours(drawn: Sequence[Arrow]) -> list[Line2D]:
    """A line of each colour that occurs, with what it means; none where no uses were looked for."""
    from matplotlib.lines import Line2D

    names = {"query": "feeds a query", "key": "feeds a key", "value": "feeds a value", "answer": "feeds the answer"}
    names |= {"": "no use seen"}
    used = [into for into in names if any(arrow.into == into for arrow in drawn)]
    return [Line2D([], [], color=_INTO.get(into, INK), label=names[into]) for into in used if used != [""]]


def _columns(circuit: Circuit) -> dict[str, float]:
    """Where each role stands: one chain in the order of the sequence, with a gap after every pair.

    Of a text's further roles only those that a path has are shown, and the answer.
    """
    names, last = circuit.roles, len(circuit.problem.roles) - 1
    further = {role for path in circuit.paths for role in path.path[2:] if role > last}
    further |= {answer_role(circuit.hops)} if circuit.text else set()
    roles = sorted({*range(last + 1), *further}, key=lambda role: _standing(circuit.problem, role))
    blocks = [_standing(circuit.problem, role)[0] for role in roles]
    return {names[role]: place + 0.5 * block for place, (role, block) in enumerate(zip(roles, blocks, strict=True))}


def _label(circuit: Circuit, role: str) -> str:
    problem, number = circuit.problem, circuit.roles.index(role)
    symbol, asked = problem.symbol_of(number), number == len(problem.roles) - 1
    if problem.graph != "chain":
        return problem.facts.symbols[symbol] + ("?" if not problem.fact_of(number) else "")
    if symbol >= 0:
        return f"$x_{{{symbol}}}${'?' if asked else ''}"
    if problem.fact_of(number):
        return role[-1]
    return "last" if number == answer_role(circuit.hops) else "…"


def _standing(problem: RetrievalProblem, role: int) -> tuple[int, int]:
    """The block of a role, and its place within the row."""
    if problem.graph == "chain":
        return place_in_text(problem, role)
    step = problem.fact_of(role)
    return problem.blocks.index(step) if step else len(problem.blocks), role
