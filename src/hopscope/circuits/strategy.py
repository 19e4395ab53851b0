"""How an answer comes about in a circuit: pair by pair, by doubling, or by the query alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.delivery import follow
from hopscope.theory.depth import minimum_one_head
from hopscope.theory.scene import text_scene

Strategy = Literal["serial", "line by line", "doubling", "none"]
"""How an answer comes about, as `strategy` tells them apart."""


def strategy(problem: RetrievalProblem, paths: Sequence[AttentionPath]) -> Strategy:
    """How an answer to a problem comes about by some paths.

    A jump is a path between two pairs, or facts; paths from or to the query do not count. `serial`: the query walks the
    chain alone, and nothing jumps. `line by line`: in a chain, some pair jumps to its neighbour after that neighbour
    has jumped itself, the two then hold one pair more than the longer of them held, and the circuit has more layers
    than doubling takes in any order (Theorem 4). `doubling`: pairs jump, but not so; those that have jumped are read
    from further away, so that one look-up covers several hops. `none`: there are no paths.
    """
    if not paths:
        return "none"
    if not (jumps := [path for path in paths if 0 < problem.fact_of(path.query) != problem.fact_of(path.key) > 0]):
        return "serial"
    if problem.graph != "chain" or len({path.layer for path in paths}) <= minimum_one_head(problem.hops):
        return "doubling"
    return "line by line" if _adds_one_pair(problem, paths, jumps) else "doubling"


def _adds_one_pair(problem: RetrievalProblem, paths: Sequence[AttentionPath], jumps: Sequence[AttentionPath]) -> bool:
    """Whether a jump to a neighbour that has jumped makes the longer of what the two hold longer by one pair alone."""
    scene = text_scene(problem)  # its roles begin with those of vectors
    history = follow(scene, paths, waive=True).history

    def held(layer: int, role: int) -> set[str]:
        pair = problem.fact_of(role)
        known = {piece for piece in scene.names(history[layer][role]) if piece.startswith("x")}
        return known | {f"x{pair - 1}", f"x{pair}"}

    for layer, _, query, key in jumps:
        mine, theirs = held(layer, query), held(layer, key)
        beside = abs(problem.fact_of(query) - problem.fact_of(key)) == 1
        if beside and len(theirs) > 2 and len(mine | theirs) == max(len(mine), len(theirs)) + 1:
            return True
    return False
