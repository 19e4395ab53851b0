"""Plot circuits as in Figure 5, and attention maps by role and by position (Appendix C)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, product
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.checks.card import Patterns
from hopscope.circuits.circuit import Circuit
from hopscope.errors import InputError
from hopscope.model.hooks import Pattern
from hopscope.plot.style import BLUE, FAINT, GREEN, INK, PURPLE, VERMILION, house, new_figure
from hopscope.problem.retrieval import Problem, RetrievalProblem
from hopscope.problem.roles import answer_role
from hopscope.theory.scene import place_in_text
from hopscope.words import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INTO = {"query": VERMILION, "key": PURPLE, "value": BLUE, "answer": GREEN}
"""The colour of a path, by what the path mostly feeds."""

_ACROSS, _SIDE = 12, 0.95
"""The largest number of attention maps in a row if layers have one head, and the side of a map in inches."""


@dataclass(frozen=True)
class Arrow:
    """The paths of one layer between the same two roles, drawn as one arrow.

    Attributes:
        layer: the layer, from 1.
        query: the role that attends.
        key: the role that is attended to.
        heads: the heads of the paths.
        weight: the largest mean attention of a path; 1 with imposed patterns.
        worst: the largest loss without one of the paths.
        into: what the paths feed most; empty if no effect was seen, or if patterns are imposed (not measured).
    """

    layer: int
    query: str
    key: str
    heads: tuple[int, ...]
    weight: float
    worst: float
    into: str


def arrows(circuit: Circuit, patterns: Patterns = "own") -> list[Arrow]:
    """Return the arrows of a circuit, or with `imposed` those of the circuit of the Appendix E procedure, by layer."""
    if patterns == "own":
        paths = [(path.path.names(circuit.roles), path.weight, path.without, path.feeds) for path in circuit.paths]
    else:
        paths = [(path.where, 1.0, path.without, ()) for path in (circuit.imposed.paths if circuit.imposed else ())]
    together: dict[tuple[int, str, str], Any] = {}
    for (layer, head, query, key), *numbers in paths:
        together.setdefault((layer, query, key), []).append((head, *numbers))
    drawn = []
    for where, parts in sorted(together.items()):
        heads, weights, without, feeds = zip(*parts, strict=True)
        most = max((feed for uses in feeds for feed in uses), key=lambda feed: feed.change, default=None)
        worst = max(loss.mean for loss in without)
        drawn.append(Arrow(*where, heads, max(weights), worst, most.into if most else ""))
    return drawn


def figure_5(*circuits: Circuit, names: Sequence[str] = ()) -> Figure:
    """Plot circuits with the model's own patterns, and with imposed patterns if the Appendix E procedure found one.

    The two panels of a single circuit are side by side. With several circuits, each circuit has a column, headed by its
    name.

    Raises:
        InputError: there is no circuit.
    """
    if not circuits:
        raise InputError("figure_5 needs at least one circuit, as hs.plot.figure_5(hs.Circuit.load('circuit.json'))")
    both = any(circuit.named_paths("imposed") for circuit in circuits)
    kinds: tuple[Patterns, ...] = ("imposed", "own") if both else ("own",)
    panels = list(product(kinds, enumerate(circuits)))
    rows, columns = (len(kinds), len(circuits)) if len(circuits) > 1 else (1, len(kinds))
    layers = max(len({arrow.layer for arrow in arrows(circuit, kind)}) for kind, (_, circuit) in panels)
    roles = max(len(_columns(circuit, arrows(circuit, kind))) for kind, (_, circuit) in panels)
    with house():
        wide = max(3.6, (0.62 if len(panels) == 1 else 0.42) * roles + 1.2)
        figure = new_figure(wide * columns, (0.95 * max(layers, 1) + 1.4) * rows)
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes, (kind, (number, circuit)) in zip(grid.flat, panels, strict=True):
            draw_circuit(axes, circuit, kind, "".join(names[number : number + 1]))
    return figure


def _heading(circuit: Circuit, patterns: Patterns) -> str:
    """Return the heading of a panel: the kind of patterns, and the loss of the circuit alone."""
    if patterns == "own":
        return "own patterns" + (f"\nloss {circuit.losses['own']:.3f}" if circuit.found else "")
    if circuit.imposed is None or not circuit.named_paths("imposed"):
        return "patterns imposed (Appendix E)"
    own = f"; {circuit.imposed.own.mean:.3f} with own patterns" if circuit.imposed.own else ""
    return f"patterns imposed (Appendix E)\nloss {circuit.imposed.loss:.3f}{own}"


def draw_circuit(axes: Axes, circuit: Circuit, patterns: Patterns = "own", name: str = "") -> None:
    """Draw a circuit's arrows, from the role that is read (below) to the role that reads (above), and a legend."""
    axes.set_title((f"{name}: " if name else "") + _heading(circuit, patterns))
    drawn = arrows(circuit, patterns)
    at, rows = _columns(circuit, drawn), list(dict.fromkeys(arrow.layer for arrow in drawn))
    top = max(len(rows), 1)
    axes.set_axis_off()
    for role, x in at.items():
        axes.plot([x, x], [0, top], color=FAINT, linewidth=1.2, zorder=0)
        for row in range(top + 1):
            axes.plot([x], [row], "o", color="white", markeredgecolor=INK, markersize=4, markeredgewidth=0.8, zorder=3)
        axes.annotate(_label(circuit, role), (x, 0), (0, -9), textcoords="offset points", ha="center", va="top")
    for arrow in drawn:
        row = rows.index(arrow.layer)
        _draw_arrow(axes, (at[arrow.key], row), (at[arrow.query], row + 1), arrow)
    for row, layer in enumerate(rows):
        heads = sorted({head for arrow in drawn if arrow.layer == layer for head in arrow.heads})
        label = f"layer {layer}" + (f"\nhead{'s' if len(heads) > 1 else ''} " if circuit.heads > 1 else "")
        label += ", ".join(map(str, heads)) if circuit.heads > 1 else ""
        axes.text(min(at.values()) - 0.6, row + 0.5, label, ha="right", va="center", fontsize=7)
    asker = list(at)[-1]
    axes.annotate("answer", (at[asker], top), (0, 7), textcoords="offset points", ha="center", fontsize=7)
    if not drawn:
        axes.text(sum(at.values()) / len(at), 0.5, "no circuit", ha="center", va="center", fontsize=11)
    axes.set_xlim(min(at.values()) - 2.6, max(at.values()) + 0.6)
    axes.set_ylim(-0.5, top + 0.4)
    _name_colours(axes, drawn)


def _draw_arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], arrow: Arrow) -> None:
    """Draw an arrow, with its loss a little above the middle."""
    style = {"arrowstyle": "-|>", "color": _INTO.get(arrow.into, INK), "linewidth": 0.8 + 1.4 * arrow.weight,
             "shrinkA": 3, "shrinkB": 3, "mutation_scale": 9}  # fmt: skip
    axes.annotate("", end, start, arrowprops=style, zorder=2)
    label = f"{arrow.worst:.2f}" + (f" ×{len(arrow.heads)}" if len(arrow.heads) > 1 else "")
    x, y = (0.42 * below + 0.58 * above for below, above in zip(start, end, strict=True))
    box = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"}
    axes.text(x, y, label, ha="center", va="center", fontsize=6, color=INK, bbox=box, zorder=4)


def _name_colours(axes: Axes, drawn: Sequence[Arrow]) -> None:
    """Draw a legend of the arrows' colours below the circuit, unless no arrow feeds anything."""
    from matplotlib.lines import Line2D

    names = {"query": "feeds a query", "key": "feeds a key", "value": "feeds a value", "answer": "feeds the answer"}
    names |= {"": "no use seen"}
    used = [into for into in names if any(arrow.into == into for arrow in drawn)]
    if used and used != [""]:
        handles = [Line2D([], [], color=_INTO.get(into, INK), label=names[into]) for into in used]
        axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=3, fontsize=6.5)


def _columns(circuit: Circuit, drawn: Sequence[Arrow]) -> dict[str, float]:
    """Return the horizontal place of each role drawn, in the order of the sequence, with a gap after every pair.

    All roles of one chain are drawn. Of the further roles of a text, only the answer and the roles of paths are drawn.
    """
    names, last = circuit.roles, len(circuit.problem.roles) - 1
    further = {names.index(name) for arrow in drawn for name in (arrow.query, arrow.key)} - {*range(last + 1)}
    further |= {len(names) - 1} if circuit.text else set()
    roles = sorted({*range(last + 1), *further}, key=lambda role: place_of(circuit.problem, role))
    blocks = [place_of(circuit.problem, role)[0] for role in roles]
    return {names[role]: place + 0.5 * block for place, (role, block) in enumerate(zip(roles, blocks, strict=True))}


def _label(circuit: Circuit, role: str) -> str:
    problem, number = circuit.problem, circuit.roles.index(role)
    symbol, asked = problem.symbol_of(number), number == len(problem.roles) - 1
    if not isinstance(problem, RetrievalProblem):
        return role
    if symbol >= 0:
        return f"$x_{{{symbol}}}${'?' if asked else ''}"
    if problem.fact_of(number):
        return role[-1]
    return "last" if number == answer_role(circuit.hops) else "…"


def place_of(problem: Problem, role: int) -> tuple[int, int]:
    """Return the block of a role, and the place of the role within the block."""
    return place_in_text(problem, role) if isinstance(problem, RetrievalProblem) else (role, 0)


def appendix_c(
    maps: Float[Tensor, "layer head role role"], problem: RetrievalProblem, circuit: Circuit | None = None
) -> Figure:
    """Plot mean attention by role, with a panel for each head and a row for each layer.

    In a panel, rows are queries and columns are keys, in the order of the sequence. The weight that a row lacks to 1 is
    on other chains. If layers have one head each, several layers share a row of panels.

    Args:
        maps: mean attention, with roles by number, as from `hs.Model.attention()`.
        problem: the problem that the roles belong to.
        circuit: its paths are framed, in red for Appendix E and dotted for own patterns; None for no frames.
    """
    from matplotlib.patches import Rectangle

    roles = sorted(range(len(problem.roles)), key=lambda role: place_of(problem, role))
    names = [problem.roles[role] for role in roles]
    frames: dict[Patterns, tuple[str, str]] = {"imposed": (VERMILION, "-"), "own": (INK, ":")}
    framed = [(arrow, look) for kind, look in frames.items() for arrow in (arrows(circuit, kind) if circuit else ())]
    with house():
        figure, panels = _panels(maps[None][:, :, :, roles][..., roles], range(len(names)), names)
        key = "; framed: Appendix E (red), own patterns (dotted)" if framed else ""
        figure.suptitle(f"Mean attention by role{key}", fontsize=8)
        for arrow, (color, dash) in framed:
            for head in arrow.heads:
                corner = names.index(arrow.key) - 0.5, names.index(arrow.query) - 0.5
                frame = Rectangle(corner, 1, 1, fill=False, edgecolor=color, linestyle=dash, linewidth=1.0)
                panels[(arrow.layer - 1) * maps.shape[1] + head - 1].add_patch(frame)
    return figure


def appendix_c_prompts(patterns: Sequence[Pattern], roles: Sequence[int], problem: RetrievalProblem) -> Figure:
    """Plot attention by position as in Appendix C, with a panel for each head and prompt, one prompt below the other.

    In a panel, rows are queries and columns are keys; lines divide the blocks, which hold the same pair of every chain.

    Args:
        patterns: one model's pattern in every layer for a few prompts, as from `hs.Transformer.patterns`.
        roles: the role of every position.
        problem: the problem that the prompts belong to.
    """
    blocks = [(step, [*places]) for step, places in groupby(range(len(roles)), lambda at: problem.fact_of(roles[at]))]
    names = [" ".join(role for n, role in enumerate(problem.roles) if problem.fact_of(n) == step) for step, _ in blocks]
    with house():
        maps = torch.stack([pattern[0] for pattern in patterns], dim=1)
        figure, panels = _panels(maps, [sum(places) / len(places) for _, places in blocks], names)
        figure.suptitle(f"Attention by position: {counted(len(maps), 'prompt')}", fontsize=8)
        for axes, (_, places) in product(panels, blocks[1:]):
            axes.axhline(places[0] - 0.5, color=INK, linewidth=0.25)
            axes.axvline(places[0] - 0.5, color=INK, linewidth=0.25)
    return figure


def _panels(
    maps: Float[Tensor, "prompt layer head query key"], ticks: Sequence[float], names: Sequence[str]
) -> tuple[Figure, list[Axes]]:
    """Return a figure with a panel for each map, titled by layer and head and labelled at the left and the bottom."""
    prompts, layers, heads = maps.shape[:3]
    count, columns = layers * heads, heads if heads > 1 else min(layers, _ACROSS)
    rows, panels = -(-count // columns), []
    figure = new_figure(max(3.4, _SIDE * columns + 0.3), _SIDE * rows * prompts * 1.12 + 0.5)
    grid = figure.subplots(prompts * rows, columns, squeeze=False).reshape(prompts, -1)
    for prompt, number in product(range(prompts), range(rows * columns)):
        axes = grid[prompt, number]
        if number >= count:
            axes.set_axis_off()
            continue
        layer, head = divmod(number, heads)
        values = maps[prompt, layer, head].detach().numpy()
        axes.imshow(values, cmap="Blues", vmin=0, vmax=1, interpolation="nearest", aspect="equal")
        of_prompt = f"prompt {prompt + 1}: " * (prompts > 1 and not number)
        axes.set_title(f"{of_prompt}{layer + 1}.{head + 1}", fontsize=6, pad=2)
        axes.grid(False)
        axes.set_xticks([])
        axes.set_yticks([])
        if number % columns == 0:
            axes.set_yticks(ticks, names, fontsize=4)
        if number + columns >= count and prompt == prompts - 1:  # no panel is below
            axes.set_xticks(ticks, names, rotation=90, fontsize=4)
        axes.tick_params(length=0, pad=1)
        for spine in axes.spines.values():
            spine.set(visible=True, linewidth=0.4, color=INK)
        panels.append(axes)
    return figure, panels
