"""Where information can flow: positions, the pieces of information each holds at the start, and what each may see.

This is the model of Section 5 and Appendix B: what a position *could* know, without numbers. Chains share nothing with
each other, so a scene is one chain.

A fact is a row of positions, its keys then its value, that share the fact's place p{k}; the question is a row of the
known symbols, which share p0. A chain of D hops has the positions s0 ... s{2D} in the order of Definition 1: s0 is the
query `x0?`, s{2k-1} is `x{k-1}>` and s{2k} is `>x{k}`. Neighbours share one piece (Definition 3): e{2k} = x{k}, the
symbol that s{2k} and s{2k+1} hold, and e{2k-1} = p{k}. So s{i} starts with e{i-1} and e{i}, where e{-1} = p0, and the
query wants e{2D} = x{D}.

The position code (`RetrievalProblem.position`) decides about p{k}:

- `pair`: the members of a pair carry the same code: p{k}, to the letter of Definition 2.
- `token`: they carry the codes of neighbouring tokens, which a head can match (a previous-token head does): again p{k}.
  Because of the shuffle, codes of different pairs say nothing about each other (Lemma 1).
- `none`: no p{k}; the members of a pair share nothing.

Facts with several keys have distractors, one for each key, in which that key, the value and what follows from it are
other symbols. A set of pieces, or of positions, is a Python integer whose bits are its members.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache

from hopscope.machine import check_fits
from hopscope.problem.graph import Graph
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import answer_role, pair_of, query_role, symbol_of, text_role_names


@dataclass(frozen=True)
class Scene:
    """Positions before any layer.

    Attributes:
        positions, pieces: names of the positions and of the pieces of information; piece b is bit b of a holding.
        holdings: the set of pieces that each position holds.
        visible: the set of positions that each position may attend to.
        asker, target: the position that must come to hold a piece, and that piece.
        lookups: the pieces that are retrieved on the way, the target last.
        rows: for each position, the set of positions in its row, itself included; a position of the question is alone.
        distractors: for every distractor, the position of each role, -1 where it has none; these positions are numbered
            after those of the roles.
    """

    positions: tuple[str, ...]
    pieces: tuple[str, ...]
    holdings: tuple[int, ...]
    visible: tuple[int, ...]
    asker: int
    target: int
    lookups: tuple[int, ...]
    rows: tuple[int, ...]
    distractors: tuple[tuple[int, ...], ...] = ()

    @property
    def roles(self) -> int:
        """Number of positions that do not belong to distractors."""
        return len(self.distractors[0]) if self.distractors else len(self.positions)

    def alike(self, position: int) -> list[int]:
        """The positions of the same role in the fact and its distractors, without this one."""
        for role in range(self.roles if self.distractors else 0):
            same = [role, *(row[role] for row in self.distractors if row[role] >= 0)]
            if position in same:
                return [other for other in same if other != position]
        return []

    def names(self, holding: int) -> tuple[str, ...]:
        """The pieces of a holding, by name."""
        return tuple(self.pieces[bit] for bit in members(holding))


def members(bits: int) -> list[int]:
    """The members of a set, ascending."""
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found


def _rows_of(lines: Sequence[Hashable | None]) -> tuple[int, ...]:
    """For every position, the set of positions in its line, itself included; only itself if it has no line (None)."""
    together: dict[Hashable, int] = {}
    for position, line in enumerate(lines):
        together[line] = together.get(line, 0) | 1 << position
    return tuple(1 << position if line is None else together[line] for position, line in enumerate(lines))


@cache
def problem_scene(problem: RetrievalProblem) -> Scene:
    """The scene of one chain of a problem, whatever its graph; positions are numbered as roles are."""
    check_fits((2 * problem.hops + 1) ** 2 // 8)  # for every position, the set of those that it sees
    return graph_scene(problem.facts, problem.blocks, problem.causal, places=problem.position != "none")


def graph_scene(graph: Graph, order: Sequence[int], causal: bool = True, *, places: bool = True) -> Scene:
    """The scene of one chain of a graph and its distractors; `places`: whether positions know the place of their row.

    The facts are in the given order, by number from 1, and the question after them. The first pieces are p0, the known
    symbols, p1, the first value, p2, ..., so that what a position of a chain holds is a contiguous run of bits.
    """
    roles, distractors = graph.places, graph.distractors
    positions, symbols = [(0, role) for role in roles], [role.symbol for role in roles]
    for number, distractor in enumerate(distractors, start=1):
        for role in (role for role in roles if role.step in distractor.steps):
            positions.append((number, role))
            # Two spaces, so that no other symbol has this name.
            symbols.append(f"{role.symbol}  other {number}" if role.symbol in distractor.others else role.symbol)
    index = {position: n for n, position in enumerate(positions)}
    own = [(number, role.step) for number, role in positions]
    chain = [[(0, 0), *graph.known], *([(0, step), value] for step, value in enumerate(graph.values, start=1))]
    pieces = dict.fromkeys([*(piece for row in chain for piece in row), *symbols, *own])
    number_of = {piece: number for number, piece in enumerate(pieces)}
    holdings = [
        1 << number_of[symbol] | (1 << number_of[place] if places else 0)
        for symbol, place in zip(symbols, own, strict=True)
    ]
    blocks = {step: block for block, step in enumerate((*order, 0))}
    where = [(blocks[role.step], number, role.member) for number, role in positions]
    visible = [sum(1 << key for key, other in enumerate(where) if _sees(place, other, causal)) for place in where]
    return Scene(
        tuple(f"{number}:{role.name}" if number else role.name for number, role in positions),
        tuple(piece if isinstance(piece, str) else f"p{piece[1]}" for piece in pieces),
        tuple(holdings),
        tuple(visible),
        asker=len(roles) - 1,
        target=number_of[graph.values[-1]],
        lookups=tuple(number_of[value] for value in graph.values),
        rows=_rows_of([place if place[1] else None for place in own]),
        distractors=tuple(
            tuple(index.get((number, role), -1) for role in roles) for number in range(1, len(distractors) + 1)
        ),
    )


def _sees(query: tuple[int, int, int], key: tuple[int, int, int], causal: bool) -> bool:
    """Whether a position may attend to another, in whatever order the rows of a block are."""
    return not causal or key[0] < query[0] or (key[:2] == query[:2] and key[2] <= query[2])


def reachability(role: int, hops: int) -> int:
    """The i of s{i} (Definition 1): how many steps of shared information lead from the query to this role."""
    return 0 if role == query_role(hops) else role + 1


def role_at(i: int, hops: int) -> int:
    """The role of s{i}: the inverse of `reachability`."""
    return query_role(hops) if i == 0 else i - 1


def place_in_sequence(problem: RetrievalProblem, chain: int, role: int) -> int:
    """The position of a chain's role when no block is shuffled, which changes nothing of what its positions see."""
    if role == query_role(problem.hops):
        return role * problem.chains + chain
    pair, member = divmod(role, 2)
    return 2 * (problem.blocks.index(pair + 1) * problem.chains + chain) + member


@cache
def text_scene(problem: RetrievalProblem) -> Scene:
    """The scene of one chain as text, its lines in the problem's order; positions are numbered as the roles of text.

    The words of a line share its place p{k}; its symbols also hold themselves. The question's symbol and the token that
    the answer follows share p0. So x{D} must arrive where the answer is written, not at the symbol that is asked for.
    """
    hops, names = problem.hops, text_role_names(problem.hops)
    pieces = tuple("px"[bit % 2] + str(bit // 2) for bit in range(2 * hops + 2))
    values = tuple(range(3, 2 * hops + 2, 2))
    holdings = []
    for role, name in enumerate(names):
        symbol = symbol_of(role, hops)
        holding = 1 << 2 * pair_of(role, hops) if name != "text" else 0
        holdings.append(holding | (1 << 2 * symbol + 1 if symbol >= 0 else 0))
    order = sorted(range(len(names)), key=lambda role: place_in_text(problem, role))
    visible = [0] * len(names)
    for number, role in enumerate(order):
        visible[role] = sum(1 << other for other in order[: number + 1])
    rows = _rows_of([pair_of(role, hops) or None for role in range(len(names))])
    return Scene(names, pieces, tuple(holdings), tuple(visible), answer_role(hops), values[-1], values, rows)


def place_in_text(problem: RetrievalProblem, role: int) -> tuple[int, int]:
    """The block of a role of text and its place in the line: symbol, link, symbol, end; the question comes last."""
    pair, hops = pair_of(role, problem.hops), problem.hops
    if not pair:
        return len(problem.blocks), role
    within = role % 2 * 2 if role < 2 * hops else 3 - role % 2 * 2
    return problem.blocks.index(pair), within
