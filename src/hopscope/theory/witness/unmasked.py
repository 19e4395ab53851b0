"""Rays in both directions, without a mask: D hops in ceil(log3(4D + 1)) layers of two heads.

Without a mask, the chain is a path s0, s1, ..., s{2D} that can be walked both ways; its edges are alternately symbols
and places. A position does not know in which direction the query is, but it can tell its two directions apart: one
direction begins with its symbol, the other with its place. So it keeps two rays:

    toward its symbol's twin   symbol0 = its symbol, symbol1 = the twin's code, symbol2 = the other symbol there, ...
    toward its pair's partner  place0 = its code, place1 = the partner's symbol, place2 = its twin's code, ...

Suppose that both rays reach r after some layer. The position 2r + 1 further along a ray has a ray of the same kind in
the opposite direction, which ends in the same piece: both positions hold this piece in slot r. So one head compares
`symbol{r}` with `symbol{r}`, and the other compares `place{r}` with `place{r}`. Both heads avoid the position itself
(by its code or by its symbol). Each head appends the ray of the position it found, in reverse, and then that position's
other ray, for a length of 3r + 1.

At the ends of the chain, x{D} has no twin and the query has no partner. These positions find themselves, as in a
mirror, and their rays run back into the chain. This is consistent along the whole path, so it needs no special case.
"""

from __future__ import annotations

from itertools import pairwise

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.scene import reachability, role_at
from hopscope.theory.witness.program import Head, LayerProgram, Term, same_code, same_symbol

_MATCH, _AVOID_SYMBOL, _AVOID_CODE = 800.0, 60.0, 80.0


def unmasked_program(problem: RetrievalProblem) -> LayerProgram:
    """Return the program for a problem without a mask, with one code per pair and unit symbols."""
    reaches = _reaches(2 * problem.hops)
    inner, end = reaches[-2], reaches[-1]
    layers: list[tuple[Head, ...]] = [
        (_ray_head(problem, "symbol", reach, new), _ray_head(problem, "place", reach, new))
        for reach, new in pairwise(reaches[:-1])
    ]
    layers.append((_ray_head(problem, "symbol", inner, end),))
    slots = {f"symbol{n}": _width(problem, "symbol", n) for n in range(end + 1)}
    slots |= {f"place{n}": _width(problem, "place", n) for n in range(inner + 1)}
    return LayerProgram(
        problem=problem,
        slots=slots,
        symbol="symbol0",
        code="place0",
        layers=tuple(layers),
        answers=tuple(f"symbol{2 * k}" for k in problem.target_hops),
    )


def _reaches(end: int) -> list[int]:
    """Return how far rays need to reach after layer 0, 1, ...; the last number is for the query's ray alone."""
    backwards = [end]
    while backwards[-1] > 0:
        backwards.append((backwards[-1] + 1) // 3)
    return backwards[::-1]


def _ray_head(problem: RetrievalProblem, ray: str, reach: int, new: int) -> Head:
    """Return the head that lengthens one kind of ray from `reach` to `new`, which is at most 3 reach + 1."""
    back = "place" if ray == "symbol" else "symbol"
    sources = [f"{ray}{n}" for n in range(reach - 1, -1, -1)] + [f"{back}{n}" for n in range(reach + 1)]
    copies = zip(sources, (f"{ray}{n}" for n in range(reach + 1, new + 1)), strict=False)
    end = f"{ray}{reach}"
    compare = same_symbol if _is_symbol(ray, reach) else same_code
    avoid = (
        same_code(problem, "place0", "place0", -_AVOID_CODE)
        if ray == "symbol"
        else same_symbol(problem, "symbol0", "symbol0", -_AVOID_SYMBOL)
    )
    terms: tuple[Term, ...] = (compare(problem, end, end, _MATCH), avoid)
    return Head(terms, tuple(copies), _attends(problem.hops, ray, 2 * reach + 1))


def _attends(hops: int, ray: str, distance: int) -> dict[int, int]:
    """Return, for every role, the role that is `distance` further along the ray."""
    found = {}
    for role in range(2 * hops + 1):
        i = reachability(role, hops)
        down_the_chain = (i % 2 == 0) == (ray == "symbol")
        found[role] = role_at(_mirrored(i + distance if down_the_chain else i - distance, 2 * hops), hops)
    return found


def _mirrored(i: int, last: int) -> int:
    """Return the position in 0 ... `last` to which reflections at both ends of the path take `i`."""
    i %= 2 * (last + 1)
    return min(i, 2 * last + 1 - i)


def _is_symbol(ray: str, n: int) -> bool:
    return (n % 2 == 0) == (ray == "symbol")


def _width(problem: RetrievalProblem, ray: str, n: int) -> int:
    return problem.symbol_dim if _is_symbol(ray, n) else problem.code_dim
