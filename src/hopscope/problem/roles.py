"""The role of a position: which symbol of its chain it holds, and as which member of which pair.

A chain of D hops has the symbols x0 ... xD and 2D + 1 positions. Pair k holds x{k-1} then x{k}; the query holds x0.
Roles are written `x{k-1}>` and `>x{k}` (the members of pair k) and `x0?` (the query), and numbered in that order.

Text has more roles: in the line of pair k, what links its members (`x{k-1}=`) and what ends the line (`x{k}.`); in the
question, the token that the answer follows (`answer`); and `text`, everything else. They are numbered after the others,
`answer` last.
"""

from __future__ import annotations

from collections.abc import Sequence

from hopscope.errors import InputError


def role_names(hops: int) -> tuple[str, ...]:
    """Names of the 2·hops + 1 roles of a chain, by role number."""
    pairs = (name for k in range(1, hops + 1) for name in (f"x{k - 1}>", f">x{k}"))
    return (*pairs, "x0?")


def text_role_names(hops: int) -> tuple[str, ...]:
    """Names of the 4·hops + 3 roles of a text, by role number: those of a chain first, `answer` last."""
    between = (name for k in range(1, hops + 1) for name in (f"x{k - 1}=", f"x{k}."))
    return (*role_names(hops), *between, "text", "answer")


def first_member(k: int) -> int:
    """Role number of `x{k-1}>`, the first member of pair k (k counts from 1)."""
    return 2 * (k - 1)


def second_member(k: int) -> int:
    """Role number of `>x{k}`, the second member of pair k (k counts from 1)."""
    return 2 * (k - 1) + 1


def answer_role(hops: int) -> int:
    """Role number of `answer`, the token that the answer follows."""
    return 4 * hops + 2


def query_role(hops: int) -> int:
    """Role number of `x0?`, the query."""
    return 2 * hops


def symbol_of(role: int, hops: int) -> int:
    """The symbol of the chain (0 ... hops) that a position of this role holds; -1 for words that are no symbol."""
    if role > query_role(hops):
        return -1
    return 0 if role == query_role(hops) else (role + 1) // 2


def role_number(name: str, roles: Sequence[str]) -> int:
    """The number of the role of that name, of roles given by number; an `InputError` if none has it."""
    if name not in roles:
        raise InputError(f"{name!r} is not a role; the roles are {', '.join(roles)}")
    return roles.index(name)
