"""The role of a position: which symbol of its chain it holds, and as which member of which pair.

A chain of D hops has the symbols x0 ... xD and 2D + 1 positions. Pair k holds x{k-1} then x{k}; the query
holds x0. Roles are written `x{k-1}>` (first member of pair k), `>x{k}` (second member) and `x0?` (the query),
and numbered in that order: 2(k-1), 2(k-1) + 1, and 2D for the query.
"""

from __future__ import annotations

from hopscope.errors import InputError


def role_names(hops: int) -> tuple[str, ...]:
    """Names of the 2·hops + 1 roles of a chain, by role number."""
    pairs = (name for k in range(1, hops + 1) for name in (f"x{k - 1}>", f">x{k}"))
    return (*pairs, "x0?")


def first_member(k: int) -> int:
    """Role number of `x{k-1}>`, the first member of pair k (k counts from 1)."""
    return 2 * (k - 1)


def second_member(k: int) -> int:
    """Role number of `>x{k}`, the second member of pair k (k counts from 1)."""
    return 2 * (k - 1) + 1


def query_role(hops: int) -> int:
    """Role number of `x0?`, the query."""
    return 2 * hops


def symbol_of(role: int, hops: int) -> int:
    """Which symbol of the chain (0 ... hops) a position of this role holds."""
    return 0 if role == 2 * hops else (role + 1) // 2


def role_number(name: str, hops: int) -> int:
    """The number of a role given by name.

    Raises:
        InputError: no role of a chain with `hops` hops has that name.
    """
    names = role_names(hops)
    if name not in names:
        raise InputError(f"{name!r} is not a role of a chain with {hops} hops; the roles are {', '.join(names)}")
    return names.index(name)
