"""The order of the pairs that needs the fewest layers under a causal mask (Theorem 6 of docs/theory.md).

The pair that comes last of a stretch of the chain sees all of it, and what it knows can grow in both directions. So the
best order cuts a stretch into three parts around a pivot, the pair that comes last of it: the first part informs the
asker, the two others inform the pivot, and the asker then attends to the pivot. Each part is ordered the same way.

       asker | first part | second part  PIVOT  third part |
                          <---- grows ----o---- grows ---->
"""

from __future__ import annotations

from collections.abc import Sequence

from hopscope.checks import check_count


def best_order(hops: int) -> tuple[int, ...]:
    """An order of the pairs 1 ... D, first to last, in which 1 + ceil(log3(2D + 1)) layers are enough.

    There are others; `RetrievalProblem(hops, order=",".join(map(str, best_order(hops))))` is the problem in this order.

    Raises:
        InputError: `hops` is not a whole number of at least 1.

    Example:
        >>> best_order(4)
        (1, 2, 4, 3)
    """
    check_count("hops", hops)
    return tuple(_asked_from_the_left(range(1, hops + 1)))


def _asked_from_the_left(pairs: Sequence[int]) -> list[int]:
    """The best order of a stretch for the query, or for a second member that looks down the chain."""
    if not pairs:
        return []
    near, far, _ = _thirds(len(pairs) - 1)
    first, second, third = pairs[:near], pairs[near : near + far], pairs[near + far + 1 :]
    pivot = pairs[near + far]
    return [*_asked_from_the_left(first), *_asked_from_the_right(second), *_asked_from_the_left(third), pivot]


def _asked_from_the_right(pairs: Sequence[int]) -> list[int]:
    """The best order of a stretch for a second member that looks up the chain: the mirror image."""
    if not pairs:
        return []
    near, _, rest = _thirds(len(pairs) - 1)
    third, second, first = pairs[:rest], pairs[rest + 1 : len(pairs) - near], pairs[len(pairs) - near :]
    return [*_asked_from_the_right(third), *_asked_from_the_left(second), *_asked_from_the_right(first), pairs[rest]]


def _thirds(number: int) -> tuple[int, int, int]:
    """The number divided into three parts that are as equal as possible, the largest first."""
    return (number + 2) // 3, (number + 1) // 3, number // 3
