"""Roles of positions: which symbol of its chain a position holds, and as which member of which pair.

A chain of D hops has the symbols x0 ... xD and 2D + 1 positions. Pair k holds x{k-1} then x{k}; the query holds x0.
Roles are written `x{k-1}>` and `>x{k}` (the members of pair k) and `x0?` (the query), and numbered in that order.

Text has more roles, which are numbered after these. The line of pair k has a link between its members (`x{k-1}=`) and
an end (`x{k}.`). The role `text` is everything else, and the last role is `answer`, the token that the answer follows.
"""

from __future__ import annotations

from collections.abc import Sequence

from hopscope.errors import InputError


def role_names(hops: int) -> tuple[str, ...]:
    """Return the names of the 2·hops + 1 roles of a chain, by role number."""
    pairs = (name for k in range(1, hops + 1) for name in (f"x{k - 1}>", f">x{k}"))
    return (*pairs, "x0?")


def text_role_names(hops: int) -> tuple[str, ...]:
    """Return the names of the 4·hops + 3 roles of a text, by role number: a chain's roles first, `answer` last."""
    between = (name for k in range(1, hops + 1) for name in (f"x{k - 1}=", f"x{k}."))
    return (*role_names(hops), *between, "text", "answer")


def first_member(k: int) -> int:
    """Return the role number of `x{k-1}>`, the first member of pair k (k counts from 1)."""
    return 2 * (k - 1)


def second_member(k: int) -> int:
    """Return the role number of `>x{k}`, the second member of pair k (k counts from 1)."""
    return 2 * (k - 1) + 1


def answer_role(hops: int) -> int:
    """Return the role number of `answer`, the token that the answer follows."""
    return 4 * hops + 2


def query_role(hops: int) -> int:
    """Return the role number of `x0?`, the query."""
    return 2 * hops


def symbol_of(role: int, hops: int) -> int:
    """Return which symbol of the chain (0 ... hops) a position of this role holds; -1 for words without a symbol."""
    if role > query_role(hops):
        return -1
    return 0 if role == query_role(hops) else (role + 1) // 2


def role_number(name: str, roles: Sequence[str]) -> int:
    """Return the index of the role called `name` in `roles`; raise an `InputError` if `roles` does not contain it."""
    if name not in roles:
        raise InputError(f"{name!r} is not a role; the roles are {', '.join(roles)}")
    return roles.index(name)
