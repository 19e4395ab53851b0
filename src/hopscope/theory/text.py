"""The flow of information as text: what the query knows, layer by layer, and which positions attend where."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.depth import theorem_1_bound
from hopscope.theory.information_flow import Flow, minimum_layers, simulate
from hopscope.theory.schedule import shortest_schedule
from hopscope.words import counted

_WIDEST = 100


def describe(problem: RetrievalProblem, *, one_place: bool = False) -> str:
    """A page on one chain: its depth, the growth of what the query knows, and a shortest schedule."""
    schedule = shortest_schedule(problem, one_place=one_place)
    layers = schedule[-1].layer + 1
    mask = f"a causal mask, {problem.order_in_words}" if problem.causal else "no mask"
    heads = "one head a layer" if one_place else "any number of heads"
    hops = counted(problem.hops, "hop")
    parts = [f"{hops} under {mask} and {heads}: {layers} layers (Theorem 1 asks for {theorem_1_bound(problem.hops)})"]
    # With one place per layer the query knows a little less on the way; the growth shown is the most of any schedule.
    most = minimum_layers(problem)
    parts.append(f"The most the query can know, with any number of heads\n{draw_growth(simulate(problem, most))}")
    parts.append(f"A shortest schedule, in {len(schedule)} attentions\n{draw_schedule(schedule, problem.roles)}")
    return "\n\n".join(parts) + "\n"


def draw_growth(flow: Flow) -> str:
    """A table with a row per layer and a column per piece of the asker's chain from x0 on, filled where it is held."""
    chain = flow.scene.pieces[1 : flow.scene.target + 1]
    wide = max(len(name) for name in chain) + 1
    if wide * len(chain) > _WIDEST:
        wide = 1
    lines = []
    if wide > 1:
        lines.append(" " * 9 + "".join(name.rjust(wide) for name in chain))
    for layer in range(len(flow.holdings)):
        held = set(flow.asked(layer))
        cells = "".join(("█" if name in held else "·").rjust(wide) for name in chain)
        furthest = [name for name in chain if name in held and name.startswith("x")][-1]
        name = f"layer {layer}" if layer else "start"
        lines.append(f"{name:<9}{cells}  as far as {furthest}".rstrip())
    return "\n".join(lines)


def draw_schedule(schedule: tuple[AttentionPath, ...], roles: Sequence[str]) -> str:
    """One line per layer with its attention paths."""
    lines = []
    for layer, paths in groupby((path.names(roles) for path in schedule), key=itemgetter(0)):
        looks = ", ".join(f"{query} -> {key}" for _, _, query, key in paths)
        lines.append(f"layer {layer:<3}{looks}")
    return "\n".join(lines)
