"""The scene of a graph of facts: what every position of one chain, and of its distractors, holds before any layer.

A fact is a row of positions, its keys then its value, that share the fact's place; the question is a row of the known
symbols. Each position starts with its symbol and the place of its row. Facts with several keys stand among distractors,
one for each key, in which that key, the value and what follows from it are other symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from hopscope.problem.graph import Graph
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.scene import Scene, chain_scene, rows_of


@cache
def problem_scene(problem: RetrievalProblem) -> Scene:
    """The scene of one chain of a problem, whatever its graph; positions are numbered as roles are."""
    if problem.graph == "chain":
        return chain_scene(replace(problem, chains=1))
    return facts_scene(problem.facts, problem.blocks, problem.causal, places=problem.position != "none")


def facts_scene(graph: Graph, order: Sequence[int], causal: bool = True, *, places: bool = True) -> Scene:
    """The scene of a graph.

    Args:
        graph: the facts and the question.
        order: the facts by number, from 1, in their order in the text; the question comes after them.
        causal: whether a position sees earlier positions and itself only.
        places: whether positions know the place of their row.
    """
    roles = graph.places
    rows = [tuple(range(len(roles)))]
    names, symbols, owners = list(graph.roles), [role.symbol for role in roles], [0] * len(roles)
    for number, distractor in enumerate(graph.distractors, start=1):
        row = [-1] * len(roles)
        for role, place in enumerate(roles):
            if place.step in distractor.steps:
                row[role] = len(names)
                names.append(f"{number}:{place.name}")
                # Two spaces, so that no other symbol has this name.
                symbols.append(f"{place.symbol}  other {number}" if place.symbol in distractor.others else place.symbol)
                owners.append(number)
        rows.append(tuple(row))

    role_of = {position: role for row in rows for role, position in enumerate(row) if position >= 0}
    own = [(owners[position], roles[role_of[position]].step) for position in range(len(names))]
    pieces = [*dict.fromkeys(symbols), *dict.fromkeys(own)]
    number_of = {piece: number for number, piece in enumerate(pieces)}
    holdings = [
        1 << number_of[symbol] | (1 << number_of[place] if places else 0)
        for symbol, place in zip(symbols, own, strict=True)
    ]
    standing = [
        (len(order) if not step else order.index(step), owner, roles[role_of[position]].member)
        for position, (owner, step) in enumerate(own)
    ]
    visible = [sum(1 << j for j, other in enumerate(standing) if _sees(one, other, causal)) for one in standing]
    return Scene(
        tuple(names),
        tuple(piece if isinstance(piece, str) else f"place {piece[1]}" for piece in pieces),
        tuple(holdings),
        tuple(visible),
        asker=len(roles) - 1,
        target=number_of[graph.values[-1]],
        lookups=tuple(number_of[value] for value in graph.values),
        rows=rows_of([place if place[1] else None for place in own]),
        distractors=tuple(rows[1:]),
    )


def _sees(one: tuple[int, int, int], other: tuple[int, int, int], causal: bool) -> bool:
    """Whether a position may attend to another in whatever order the rows of a block stand."""
    if not causal:
        return True
    return other[0] < one[0] or (other[:2] == one[:2] and other[2] <= one[2])
