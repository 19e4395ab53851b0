"""Pointer doubling by hand: D hops under a causal mask in floor(log2 D) + 2 layers of one head.

In layer 1 the second member of every pair learns the first (slot `start`). From then on every position holds a stretch
of its chain in the slots `next0`, `next1`, ...: a second member `>x{k}` the symbols x{k}, x{k+1}, ..., a query x0, x1,
.... Before layer t the first w = 2^(t-2) of them are filled. In layer t the position finds the second member of the
pair that starts with the last of them, and appends that position's w symbols to its own, which doubles them.

A position that finds no such pair has come to the end of its chain and appends meaningless symbols, which nothing
reads.
"""

from __future__ import annotations

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import first_member, query_role, second_member
from hopscope.theory.depth import minimum_causal
from hopscope.theory.witness.matching import earlier, not_the_first, same_code, same_symbol
from hopscope.theory.witness.program import Head, LayerProgram, Term

_MATCH, _AVOID, _EARLIER, _IN_VAIN = 800.0, 60.0, 6.0, 100.0
# A quarter of a match: enough to lose to a pair that really starts with that symbol, too little to disturb the others.
_AVOID_OWN = _MATCH / 4


def causal_program(problem: RetrievalProblem) -> LayerProgram:
    """The program for a problem with a causal mask, deepest pairs first, and unit symbols."""
    hops = problem.hops
    chain = [f"next{n}" for n in range(hops + 1)]
    layers = [(first_members(problem, "next0", "start"),)]
    layers += [(_twice_as_far(problem, 1 << t - 2),) for t in range(2, minimum_causal(hops) + 1)]
    codes = dict.fromkeys(("code", "before") if problem.position == "token" else ("code",), problem.code_dim)
    return LayerProgram(
        problem=problem,
        slots={**codes, **dict.fromkeys(["start", *chain], problem.symbol_dim)},
        symbol="next0",
        code="code",
        layers=tuple(layers),
        answers=tuple(chain[k] for k in problem.target_hops),
    )


def first_members(problem: RetrievalProblem, symbol: str, start: str) -> Head:
    """The head of layer 1: attend to the token before or, with one code per pair, to the other one with this code."""
    attends = {second_member(k): first_member(k) for k in range(1, problem.hops + 1)}
    if problem.position == "token":
        back = same_code(problem, "code", "code", _MATCH, steps_back=1)
        return Head((back,), ((symbol, start), ("code", "before")), attends)
    partner = (same_code(problem, "code", "code", _MATCH), same_symbol(problem, symbol, symbol, -_AVOID))
    return Head(partner, ((symbol, start),), attends)


def _twice_as_far(problem: RetrievalProblem, held: int) -> Head:
    """The head of layers 2, 3, ...: append the stretch that starts where the position's own stretch ends."""
    hops, last = problem.hops, f"next{held - 1}"
    copies = [(f"next{n}", f"next{held + n}") for n in range(held) if held + n <= hops]
    attends = {second_member(k): second_member(k + held) for k in range(1, hops - held + 1)}
    return Head(_starts_with(problem, last), tuple(copies), {**attends, query_role(hops): second_member(held)})


def _starts_with(problem: RetrievalProblem, last: str) -> tuple[Term, ...]:
    """The terms that find the second member of the pair that starts with the symbol in slot `last`.

    Other positions have that symbol in `start` too, and must lose.

    With one code per pair, a position with no partner before it found itself, so its `start` is its own symbol, which
    lowers its score. With one code per token, a first member found the pair before it, which is another chain's. But
    the pair of that chain that really starts with the symbol is in an earlier block, so the earlier position wins; and
    the very first position, which found itself, is recognised by its `before` slot, which holds its own code.
    """
    if problem.position == "pair":
        own = same_symbol(problem, last, "next0", -_AVOID_OWN)
        return (same_symbol(problem, last, "start", _MATCH), own)
    # Being earlier must never outweigh being equal, however far apart the two are.
    match = _MATCH + 2 * _EARLIER * problem.sequence_length
    return (
        same_symbol(problem, last, "start", match),
        earlier(problem, "code", _EARLIER),
        *not_the_first(problem, "code", "before", _IN_VAIN),
    )
