"""Pointer doubling under a causal mask: D hops, deepest pairs first, in floor(log2 D) + 2 layers of one head.

In layer 1 the second member of every pair learns the first (slot `start`). From then on every position holds a stretch
of its chain in the slots `next0`, `next1`, ...: a second member `>x{k}` the symbols x{k}, x{k+1}, ..., a query x0, x1,
.... Before layer t the first w = 2^(t-2) of them are filled. In layer t the position finds the second member of the
pair that starts with the last of them, and appends that position's w symbols to its own, which doubles them. A position
that finds no such pair has come to the end of its chain and appends meaningless symbols, which nothing reads.
"""

from __future__ import annotations

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import first_member, query_role, second_member
from hopscope.theory.depth import minimum_causal
from hopscope.theory.witness.program import Head, LayerProgram, Term, earlier, not_the_first, same_code, same_symbol

_MATCH, _EARLIER, _IN_VAIN = 800.0, 6.0, 100.0


def causal_program(problem: RetrievalProblem) -> LayerProgram:
    """The program for a problem with a causal mask, deepest pairs first, one code per token and unit symbols."""
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
    """The head of layers 2, 3, ...: append the stretch that starts where the position's own stretch ends."""
    hops, last = problem.hops, f"next{held - 1}"
    copies = [(f"next{n}", f"next{held + n}") for n in range(held) if held + n <= hops]
    attends = {second_member(k): second_member(k + held) for k in range(1, hops - held + 1)}
    return Head(_starts_with(problem, last), tuple(copies), {**attends, query_role(hops): second_member(held)})


def _starts_with(problem: RetrievalProblem, last: str) -> tuple[Term, ...]:
    """The terms that find the second member of the pair that starts with the symbol in slot `last`.

    Other positions have that symbol in `start` too, and must lose. A first member found the pair before it, which is
    another chain's; but the pair of that chain that really starts with the symbol is in an earlier block, so the
    earlier position wins. The very first position, which found itself, is recognised by its `before` slot, which holds
    its own code.
    """
    # Being earlier must never outweigh being equal, however far apart the two are.
    match = _MATCH + 2 * _EARLIER * problem.sequence_length
    return (
        same_symbol(problem, last, "start", match),
        earlier(problem, "code", _EARLIER),
        *not_the_first(problem, "code", "before", _IN_VAIN),
    )
