"""A shortest schedule: the attention paths, layer by layer, by which x{D} reaches its query as early as possible.

A schedule proves an upper bound on depth. If any of its attention paths is removed, x{D} does not arrive. No schedule
has fewer than 2D paths (Theorem 5); in all tested cases this one has exactly 2D. The schedule is traced through the
simulation, backwards from the query.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import RetrievalProblem, check_problem
from hopscope.theory.depth import theorem_1_bound
from hopscope.theory.information_flow import Flow, flow_until
from hopscope.theory.path_flow import arrives
from hopscope.theory.scene import Scene, members, problem_scene
from hopscope.words import counted

_WIDEST = 100


def shortest_schedule(problem: RetrievalProblem) -> tuple[AttentionPath, ...]:
    """Return the attention paths that carry x{D} to its query in the fewest layers, by layer; all chains use them.

    Raises:
        InputError: x{D} never reaches the query, or `problem` is not a `RetrievalProblem`.
    """
    check_problem(problem)
    flow = flow_until(problem_scene(problem))
    return _pruned(flow.scene, _cut_out(flow.scene, flow.holdings))


def _cut_out(scene: Scene, history: tuple[tuple[int, ...], ...]) -> list[AttentionPath]:
    """Return the attention paths that the asker needs, traced from the last layer back to the first."""
    paths: list[AttentionPath] = []
    needed = {scene.asker: 1 << scene.target}
    for layer in reversed(range(len(history) - 1)):
        before, earlier = history[layer], dict.fromkeys(needed, 0)
        for position, pieces in needed.items():
            earlier[position] |= pieces & before[position]
            missing = pieces & ~before[position]
            while missing:
                key = _supplier(scene, before, position, missing)
                paths.append(AttentionPath(layer, 0, position, key))
                match = _match(scene, before[position] & before[key], position, key)
                earlier[position] |= match
                earlier[key] = earlier.get(key, 0) | match | (missing & before[key])
                missing &= ~before[key]
        needed = earlier
    return paths


def _supplier(scene: Scene, holdings: tuple[int, ...], position: int, missing: int) -> int:
    """Return the position that holds most of the missing pieces, among those `position` may attend to."""
    allowed = [key for key in members(scene.visible[position]) if holdings[key] & holdings[position]]
    return max(allowed, key=lambda key: (holdings[key] & missing).bit_count())


def _match(scene: Scene, shared: int, position: int, key: int) -> int:
    """Return a set of one shared piece, preferably one that both positions, or else one, hold from the start."""
    start = (scene.holdings[position], scene.holdings[key])
    return 1 << max(members(shared), key=lambda piece: sum(holding >> piece & 1 for holding in start))


def _pruned(scene: Scene, paths: list[AttentionPath]) -> tuple[AttentionPath, ...]:
    """Return a minimal subset of the paths that still delivers x{D}: drop each path that is not needed, in turn."""
    kept = tuple(sorted(paths))
    for path in reversed(kept):
        rest = tuple(other for other in kept if other != path)
        if arrives(scene, rest):
            kept = rest
    return kept


def describe(problem: RetrievalProblem) -> str:
    """Return a text on one chain: its depth, how the query's knowledge grows, and a shortest schedule."""
    schedule, bound = shortest_schedule(problem), theorem_1_bound(problem.hops)
    growth = _draw_growth(flow_until(problem_scene(problem)))
    mask = f"a causal mask, {problem.order_in_words}" if problem.causal else "no mask"
    needed = f"{counted(problem.hops, 'hop')} under {mask} and any number of heads: {schedule[-1].layer + 1} layers"
    return (
        f"{needed} (Theorem 1 asks for {bound})\n\n"
        f"The most the query can know, with any number of heads (p1: the place of pair 1)\n{growth}\n\n"
        f"A shortest schedule, in {len(schedule)} attentions\n{_draw_schedule(schedule, problem.roles)}\n"
    )


def _draw_growth(flow: Flow) -> str:
    """Return a table of layers by pieces of the chain from x0 on, filled where the asker holds the piece."""
    chain = flow.scene.pieces[1 : flow.scene.target + 1]
    wide = max(len(name) for name in chain) + 1
    wide = wide if wide * len(chain) <= _WIDEST else 1
    lines = [" " * 9 + "".join(name.rjust(wide) for name in chain)] if wide > 1 else []
    for layer in range(len(flow.holdings)):
        held = set(flow.asked(layer))
        cells = "".join(("█" if name in held else "·").rjust(wide) for name in chain)
        furthest = [name for name in chain if name in held and name.startswith("x")][-1]
        name = f"layer {layer}" if layer else "start"
        lines.append(f"{name:<9}{cells}  as far as {furthest}".rstrip())
    return "\n".join(lines)


def _draw_schedule(schedule: tuple[AttentionPath, ...], roles: Sequence[str]) -> str:
    lines = []
    for layer, paths in groupby((path.names(roles) for path in schedule), key=itemgetter(0)):
        pairs = ", ".join(f"{query} -> {key}" for _, _, query, key in paths)
        lines.append(f"layer {layer:<3}{pairs}")
    return "\n".join(lines)
