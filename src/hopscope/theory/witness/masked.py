"""Pointer doubling under a causal mask: D hops, deepest pairs first, in floor(log2 D) + 2 layers of one head.

In layer 1, the second member of every pair learns the first member (slot `start`). From then on, every position holds a
stretch of its chain in the slots `next0`, `next1`, ...: a second member `>x{k}` holds x{k}, x{k+1}, ..., and a query x0
holds x0, x1, .... Before layer t, the first w = 2^(t-2) of these slots are filled. In layer t, a position finds
the second member of the pair that starts with its last symbol and appends the w symbols of that second member, which
doubles the stretch. A position that finds no such pair is at the end of its chain; it appends symbols that nothing
reads.
"""

from __future__ import annotations

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import first_member, query_role, second_member
from hopscope.theory.depth import minimum_causal
from hopscope.theory.witness.program import Head, LayerProgram, Term, earlier, not_the_first, same_code, same_symbol

_MATCH, _EARLIER, _IN_VAIN = 800.0, 6.0, 100.0


def causal_program(problem: RetrievalProblem) -> LayerProgram:
    """Return the program for a problem with a causal mask, deepest pairs first, token codes and unit symbols."""
    hops = problem.hops
    chain = [f"next{n}" for n in range(hops + 1)]
    back = same_code(problem, "code", "code", _MATCH, steps_back=1)
    first_members = {second_member(k): first_member(k) for k in range(1, hops + 1)}
    layers = [(Head((back,), (("next0", "start"), ("code", "before")), first_members),)]
    layers += [(_twice_as_far(problem, 1 << t - 2),) for t in range(2, minimum_causal(hops) + 1)]
    codes = dict.fromkeys(("code", "before"), problem.code_dim)
    return LayerProgram(
        problem=problem,
        slots={**codes, **dict.fromkeys(["start", *chain], problem.symbol_dim)},
        symbol="next0",
        code="code",
        layers=tuple(layers),
        answers=tuple(chain[k] for k in problem.target_hops),
    )


def _twice_as_far(problem: RetrievalProblem, held: int) -> Head:
    """Return the head of a layer after the first; it appends the stretch that starts at a position's last symbol."""
    hops, last = problem.hops, f"next{held - 1}"
    copies = [(f"next{n}", f"next{held + n}") for n in range(held) if held + n <= hops]
    attends = {second_member(k): second_member(k + held) for k in range(1, hops - held + 1)}
    return Head(_starts_with(problem, last), tuple(copies), {**attends, query_role(hops): second_member(held)})


def _starts_with(problem: RetrievalProblem, last: str) -> tuple[Term, ...]:
    """Return the terms that find the second member of the pair that starts with the symbol in slot `last`.

    Two other kinds of positions have that symbol in `start` and must not be chosen. A first member copied the symbol
    from the pair before it, which belongs to another chain; the pair that really starts with the symbol is in an
    earlier block, so the earlier position wins. The first position of the sequence copied its own symbol; its `before`
    slot shows this, because the slot holds the position's own code.
    """
    # A match must always outweigh an earlier position, however far apart the positions are.
    match = _MATCH + 2 * _EARLIER * problem.sequence_length
    return (
        same_symbol(problem, last, "start", match),
        earlier(problem, "code", _EARLIER),
        *not_the_first(problem, "code", "before", _IN_VAIN),
    )
