"""Where information can flow: the positions, and what each position holds at the start and may attend to.

This is the model of Section 5 and Appendix B, which describes what a position *could* know. Chains share nothing with
each other, so a scene is one chain.

The positions s0 ... s{2D} are in the order of Definition 1: s0 is the query `x0?`, s{2k-1} is `x{k-1}>` and s{2k} is
`>x{k}`. Neighbours share one piece (Definition 3): e{2k} = x{k}, the symbol that s{2k} and s{2k+1} hold, and e{2k-1} =
p{k}, the place of pair k. So s{i} starts with e{i-1} and e{i}, where e{-1} = p0, and the query wants e{2D} = x{D}.

The position code (`RetrievalProblem.position`) determines p{k}:

- `pair`: the members of a pair carry the same code, which is p{k} exactly as in Definition 2.
- `token`: the members carry the codes of neighbouring tokens. A head can match these codes, as a previous-token head
  does, so they too count as p{k}. Because of the shuffle, codes of different pairs are independent (Lemma 1).
- `none`: there is no p{k}; the members of a pair share nothing.

A set of pieces, or of positions, is a Python integer whose bits are its members.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from hopscope.machine import check_fits
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import answer_role, query_role, symbol_of, text_role_names


@dataclass(frozen=True)
class Scene:
    """The positions of one chain before the first layer.

    Attributes:
        positions, pieces: names of the positions and of the pieces of information; piece b is bit b of a holding.
        holdings: the set of pieces that each position holds.
        visible: the set of positions that each position may attend to.
        asker: the position that needs the target.
        target: the piece of information that the asker needs.
        lookups: the pieces to retrieve in order, ending with the target.
        rows: for each position, the set of positions in its pair, including itself; a query is alone in its row.
    """

    positions: tuple[str, ...]
    pieces: tuple[str, ...]
    holdings: tuple[int, ...]
    visible: tuple[int, ...]
    asker: int
    target: int
    lookups: tuple[int, ...]
    rows: tuple[int, ...]

    def names(self, holding: int) -> tuple[str, ...]:
        """Return the names of the pieces in a holding."""
        return tuple(self.pieces[bit] for bit in members(holding))


def members(bits: int) -> list[int]:
    """Return the members of a set in ascending order."""
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found


@cache
def problem_scene(problem: RetrievalProblem) -> Scene:
    """Return the scene of one chain of vectors; its position numbers are role numbers."""
    check_fits((2 * problem.hops + 1) ** 2 // 8)  # for every position, the set of those that it sees
    return _scene(problem, problem.roles, query_role(problem.hops), problem.causal, problem.position != "none")


@cache
def text_scene(problem: RetrievalProblem) -> Scene:
    """Return the scene of one chain as text, with its lines in the problem's order; position numbers are role numbers.

    The words of a line share its place p{k}, and each symbol also holds its own piece. The question's symbol and the
    token that the answer follows share p0. So x{D} must reach the last token, not the symbol in the question.
    """
    return _scene(problem, text_role_names(problem.hops), answer_role(problem.hops), causal=True, places=True)


def _scene(problem: RetrievalProblem, names: tuple[str, ...], asker: int, causal: bool, places: bool) -> Scene:
    """Build a scene whose positions have the given names; `places` says whether positions know the place of their pair.

    The first pieces are p0, x0, p1, x1, ..., so that a position of a chain holds a contiguous run of bits.
    """
    hops, roles = problem.hops, range(len(names))
    pairs, holdings = [problem.fact_of(role) for role in roles], []
    for role, name in enumerate(names):
        symbol = symbol_of(role, hops)
        place = 1 << 2 * pairs[role] if places and name != "text" else 0
        holdings.append(place | (1 << 2 * symbol + 1 if symbol >= 0 else 0))
    visible, seen, together = [(1 << len(names)) - 1] * len(names), 0, [0] * (hops + 1)
    for role in sorted(roles, key=lambda role: place_in_text(problem, role)):
        seen |= 1 << role
        together[pairs[role]] |= 1 << role
        if causal:
            visible[role] = seen
    pieces = tuple("px"[bit % 2] + str(bit // 2) for bit in range(2 * hops + 2))
    values = tuple(range(3, 2 * hops + 2, 2))
    rows = tuple(together[pair] if pair else 1 << role for role, pair in enumerate(pairs))
    return Scene(names, pieces, tuple(holdings), tuple(visible), asker, values[-1], values, rows)


def reachability(role: int, hops: int) -> int:
    """Return the i of s{i} (Definition 1), the number of steps of shared information from the query to this role."""
    return 0 if role == query_role(hops) else role + 1


def role_at(i: int, hops: int) -> int:
    """Return the role of s{i}, the inverse of `reachability`."""
    return query_role(hops) if i == 0 else i - 1


def place_in_sequence(problem: RetrievalProblem, chain: int, role: int) -> int:
    """Return the position of a chain's role before shuffling; shuffling does not change what positions can see."""
    if role == query_role(problem.hops):
        return role * problem.chains + chain
    pair, member = divmod(role, 2)
    return 2 * (problem.blocks.index(pair + 1) * problem.chains + chain) + member


def place_in_text(problem: RetrievalProblem, role: int) -> tuple[int, int]:
    """Return the block of a role of text and its place in the line: symbol, link, symbol, end; questions come last."""
    pair, hops = problem.fact_of(role), problem.hops
    if not pair:
        return len(problem.blocks), role
    within = role % 2 * 2 if role < 2 * hops else 3 - role % 2 * 2
    return problem.blocks.index(pair), within
