"""Witnesses under a causal mask.

*Pointer doubling*: D hops, deepest pairs first, in floor(log2 D) + 2 layers of one head. In layer 1 the second member
of every pair learns the first (slot `start`). From then on every position holds a stretch of its chain in the slots
`next0`, `next1`, ...: a second member `>x{k}` the symbols x{k}, x{k+1}, ..., a query x0, x1, .... Before layer t the
first w = 2^(t-2) of them are filled. In layer t the position finds the second member of the pair that starts with the
last of them, and appends that position's w symbols to its own, which doubles them. A position that finds no such pair
has come to the end of its chain and appends meaningless symbols, which nothing reads.

*Both directions*: four hops in three layers, with pair 3 after pairs 2 and 4. Here `>x3` comes last of x1 ... x4:

    layer 1  the second member of every pair learns the first: slot `back1`
    layer 2  >x3 attends on to >x4 and back to >x2, and holds x1 ... x4; the query attends to >x1, and holds x0, x1
    layer 3  the query searches for the position that is two steps after x1 (slot `back2`), and finds >x3

Pairs have one code, so for a position that is not a second member, no earlier position has its code: it finds itself in
layer 1, its `back1` is its own symbol, and the difference of the two slots is zero. Comparing with differences excludes
these positions. To search backwards, two heads search in the same way, one for the owner of the symbol in `back1`, the
other for the owner of the position's own symbol, and their results are subtracted: where no earlier pair of the chain
is visible, or where the position is not a second member, both are the same, and layer 3 finds nothing there.
"""

from __future__ import annotations

from hopscope.errors import InputError
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import first_member, query_role, second_member
from hopscope.theory.depth import minimum_causal
from hopscope.theory.witness.program import Head, LayerProgram, Term, earlier, not_the_first, same_code, same_symbol

_MATCH, _AVOID, _EARLIER, _IN_VAIN = 800.0, 60.0, 6.0, 100.0


def causal_program(problem: RetrievalProblem) -> LayerProgram:
    """The program for a problem with a causal mask, deepest pairs first, one code per token and unit symbols."""
    hops = problem.hops
    chain = [f"next{n}" for n in range(hops + 1)]
    layers = [(_first_members(problem, "next0", "start"),)]
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


def _first_members(problem: RetrievalProblem, symbol: str, start: str) -> Head:
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


def both_ways_program(problem: RetrievalProblem) -> LayerProgram:
    """The program for four hops under a causal mask, with one code per pair and unit symbols.

    Raises:
        InputError: there are not four hops, or pair 3 does not come after pairs 2 and 4.
    """
    block = {pair: number for number, pair in enumerate(problem.blocks)}
    if problem.hops != 4 or block[3] < max(block[2], block[4]):
        raise InputError(
            "a witness is known for deepest-first, and for 4 hops with pair 3 after pairs 2 and 4, as in 1,2,4,3; got "
            f"{problem.hops} hops, order {problem.order}"
        )
    on = [f"on{n}" for n in range(5)]
    symbols = dict.fromkeys([*on, "back1", "back2", "without"], problem.symbol_dim)
    asker, pivot = query_role(4), second_member(3)
    forwards = Head(
        _find(problem, "on0", "back1", "on0"),
        (("on0", "on1"),),
        {asker: second_member(1), pivot: second_member(4)},
    )
    backwards = Head(_owner(problem, "back1"), (("back1", "back2"),), {pivot: second_member(2)})
    to_itself = Head(_owner(problem, "on0"), (("back1", "without"),), {})
    ask = Head(
        _find(problem, "on1", "back2", "without"),
        (("back1", "on2"), ("on0", "on3"), ("on1", "on4")),
        {asker: pivot},
    )
    return LayerProgram(
        problem=problem,
        slots={"code": problem.code_dim, **symbols},
        symbol="on0",
        code="code",
        layers=((_first_members(problem, "on0", "back1"),), (forwards, backwards, to_itself), (ask,)),
        answers=tuple(on[k] for k in problem.target_hops),
    )


def _find(problem: RetrievalProblem, own: str, wanted: str, less: str, weight: float = 1.0) -> tuple[Term, ...]:
    """Terms that find the position whose slot `wanted`, and not whose slot `less`, equals this position's `own`."""
    return same_symbol(problem, own, wanted, _MATCH), same_symbol(problem, own, less, -weight * _MATCH)


def _owner(problem: RetrievalProblem, own: str) -> tuple[Term, ...]:
    """Terms that find the second member with the symbol in this position's `own`, or else the first member with it."""
    return _find(problem, own, "on0", "back1", weight=0.5)
