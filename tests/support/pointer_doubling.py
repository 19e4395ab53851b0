"""The construction of Theorem 4: a schedule in which every position attends to one position per layer."""

from __future__ import annotations

from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import first_member, query_role, second_member


def pointer_doubling(problem: RetrievalProblem) -> tuple[AttentionPath, ...]:
    """Pointer doubling in any order of the pairs.

    Second members first learn their first member. Then, of two neighbouring stretches of 2^a pairs, the second member
    that comes last of all attends to the last one of the other stretch. The query attends to the last second member of
    pair 1, of pairs 2 and 3, of pairs 4 to 7, ....
    """
    hops, block = problem.hops, {pair: number for number, pair in enumerate(problem.blocks)}

    def last(first: int, size: int) -> int:
        return max(range(first, min(first + size, hops + 1)), key=block.__getitem__)

    paths = [AttentionPath(0, 0, second_member(k), first_member(k)) for k in range(1, hops + 1)]
    for layer in range(1, hops.bit_length() + 1):
        size = 1 << layer - 1
        paths.append(AttentionPath(layer, 0, query_role(hops), second_member(last(size, size))))
        for first in range(2 * size, hops + 1 - size, 2 * size):  # below 2^layer the stretches are the query's own
            earlier, later = sorted((last(first, size), last(first + size, size)), key=block.__getitem__)
            paths.append(AttentionPath(layer, 0, second_member(later), second_member(earlier)))
    return tuple(sorted(paths))
