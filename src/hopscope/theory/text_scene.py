"""The scene of a text: what every word of a chain's lines and of the question knows before any layer.

The words of a line share its place p{k}; its symbols also hold themselves. The question's symbol and the token that the
answer follows share p0. So x{D} must arrive where the answer is written, not at the symbol that is asked for.
"""

from __future__ import annotations

from functools import cache

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import answer_role, pair_of, symbol_of, text_role, text_role_names
from hopscope.theory.information_flow import spread
from hopscope.theory.scene import Scene, rows_of


@cache
def text_scene(problem: RetrievalProblem) -> Scene:
    """The scene of one chain, its lines in the problem's order; positions are numbered as the roles of text are."""
    hops, names = problem.hops, text_role_names(problem.hops)
    pieces = tuple("px"[bit % 2] + str(bit // 2) for bit in range(2 * hops + 2))
    holdings = []
    for role in range(len(names)):
        symbol = symbol_of(role, hops)
        holding = 1 << 2 * pair_of(role, hops) if role != text_role(hops) else 0
        holdings.append(holding | (1 << 2 * symbol + 1 if symbol >= 0 else 0))
    order = sorted(range(len(names)), key=lambda role: standing(problem, role))
    visible = [0] * len(names)
    for number, role in enumerate(order):
        visible[role] = sum(1 << other for other in order[: number + 1])
    lookups = tuple(2 * hop + 1 for hop in range(1, hops + 1))
    rows = rows_of([pair_of(role, hops) or None for role in range(len(names))])
    return Scene(names, pieces, tuple(holdings), tuple(visible), answer_role(hops), 2 * hops + 1, lookups, rows)


def text_layers_needed(problem: RetrievalProblem) -> int:
    """The fewest layers after which the token that the answer follows can hold x{D}, under Assumptions 1 and 2."""
    scene = text_scene(problem)
    return next(layer for layer, holdings in enumerate(spread(scene)) if holdings[scene.asker] >> scene.target & 1)


def standing(problem: RetrievalProblem, role: int) -> tuple[int, int]:
    """The block of a role and its place in the line: a symbol, the link, a symbol, the end; the question comes last."""
    pair, hops = pair_of(role, problem.hops), problem.hops
    if not pair:
        return len(problem.blocks), role
    within = role % 2 * 2 if role < 2 * hops else 3 - role % 2 * 2
    return problem.blocks.index(pair), within
