"""Looking both ways under a mask, by hand: four hops in three layers, with pair 3 after pairs 2 and 4.

Deepest or shallowest first, four hops need four layers. Here `>x3` comes last of x1 ... x4 and looks both ways:

    layer 1  the second member of every pair learns the first: slot `back1`
    layer 2  >x3 attends on to >x4 and back to >x2, and holds x1 ... x4; the query attends to >x1, and holds x0, x1
    layer 3  the query searches for the position that is two steps after x1 (slot `back2`), and finds >x3

Pairs have one code, so for a position that is not a second member, no earlier position has its code: it finds itself in
layer 1, its `back1` is its own symbol, and the difference of the two slots is zero. Comparing with differences excludes
these positions. To look back, two heads search in the same way, one for the owner of the symbol in `back1`, the other
for the owner of the position's own symbol, and their results are subtracted: where no pair further up the chain is in
sight, or where the position is not a second member, both are the same, and layer 3 finds nothing there.
"""

from __future__ import annotations

from hopscope.errors import InputError
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import query_role, second_member
from hopscope.theory.witness.causal import first_members
from hopscope.theory.witness.matching import same_symbol
from hopscope.theory.witness.program import Head, LayerProgram, Term

_MATCH = 800.0


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
    look_on = Head(
        _find(problem, "on0", "back1", "on0"),
        (("on0", "on1"),),
        {asker: second_member(1), pivot: second_member(4)},
    )
    look_back = Head(_owner(problem, "back1"), (("back1", "back2"),), {pivot: second_member(2)})
    look_at_myself = Head(_owner(problem, "on0"), (("back1", "without"),), {})
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
        layers=((first_members(problem, "on0", "back1"),), (look_on, look_back, look_at_myself), (ask,)),
        answers=tuple(on[k] for k in problem.target_hops),
    )


def _find(problem: RetrievalProblem, mine: str, theirs: str, less: str, held_against: float = 1.0) -> tuple[Term, ...]:
    """Terms that find the position whose slot `theirs`, and not whose slot `less`, equals this position's `mine`."""
    against = -held_against * _MATCH
    return same_symbol(problem, mine, theirs, _MATCH), same_symbol(problem, mine, less, against)


def _owner(problem: RetrievalProblem, mine: str) -> tuple[Term, ...]:
    """Terms that find the second member with the symbol in this position's `mine`, or else the first member with it."""
    return _find(problem, mine, "on0", "back1", held_against=0.5)
