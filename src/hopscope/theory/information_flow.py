"""Information flow through layers of attention, under the two assumptions of Section 5.

1. A position can attend to another only if they already share a piece of information.
2. A position that attends to another gets all the information that the other holds.

With any number of heads, a position can attend to all positions that it shares something with, and more knowledge never
hurts. The simulation is therefore exact: no schedule of t layers can give a position a piece of information that the
position does not hold after layer t of the simulation.

With `head_a_row`, rule 1 is relaxed: a position that shares something with one position of a row can attend to every
position of the row. Real heads can do this if a layer has one head for each row of a block; each head attends to its
row unless it finds a match elsewhere (docs/theory.md, Theorem 7).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hopscope.checks import check_count
from hopscope.errors import InputError
from hopscope.problem.retrieval import RetrievalProblem, check_problem
from hopscope.theory.scene import Scene, members, problem_scene


@dataclass(frozen=True)
class Flow:
    """The pieces that each position of a scene holds, by layer (0 is before the first layer) and position."""

    scene: Scene
    holdings: tuple[tuple[int, ...], ...]

    def asked(self, layer: int) -> tuple[str, ...]:
        """Return the names of the pieces that the asker holds after a layer."""
        return self.scene.names(self.holdings[layer][self.scene.asker])


def simulate(problem: RetrievalProblem, layers: int) -> Flow:
    """Simulate what every position of one chain holds after 0 ... `layers` layers."""
    scene = problem_scene(problem)
    history = [holdings for holdings, _ in zip(spread(scene), range(layers + 1), strict=False)]
    return Flow(scene, (*history, *[history[-1]] * (layers + 1 - len(history))))


def flow_until(scene: Scene, piece: int | None = None, *, head_a_row: bool = False) -> Flow:
    """Simulate what every position holds, layer by layer, until the asker holds `piece`, by default the target.

    Raises:
        InputError: the piece never reaches the asker.
    """
    piece, history = scene.target if piece is None else piece, []
    for holdings in spread(scene, head_a_row=head_a_row):
        history.append(holdings)
        if holdings[scene.asker] >> piece & 1:
            return Flow(scene, tuple(history))
    raise InputError(
        f"{scene.pieces[piece]} never reaches the question: the members of a pair share nothing with position='none'; "
        "use token or pair"
    )


def min_layers(
    problem: RetrievalProblem | None = None,
    lookup: int | None = None,
    *,
    hops: int | None = None,
    head_a_row: bool = False,
) -> int:
    """Return the smallest number of layers after which the query can hold a symbol, with any number of heads.

    Args:
        problem: the problem; None for chains of `hops` hops, deepest pairs first, under a causal mask.
        lookup: number of the symbol in the order of retrieval, from 1; None for the last.
        hops: D, instead of a problem; by default 3.
        head_a_row: whether a layer has a head for every row of a block; see the module's docstring.

    Raises:
        InputError: the symbol never reaches the query, `problem` is not a problem, or `hops` is given beside it.
    """
    if problem is not None and hops is not None:
        raise InputError(f"give a problem, which has its own hops, or hops={hops}, not both")
    problem = RetrievalProblem(3 if hops is None else hops) if problem is None else problem
    check_problem(problem)
    scene = problem_scene(problem)
    if lookup is not None:
        check_count("lookup", lookup, most=len(scene.lookups))
    piece = None if lookup is None else scene.lookups[lookup - 1]
    return len(flow_until(scene, piece, head_a_row=head_a_row).holdings) - 1


def spread(scene: Scene, *, head_a_row: bool = False) -> Iterator[tuple[int, ...]]:
    """Yield the holdings after layer 0, 1, 2, ... until a layer changes nothing."""
    holdings, before = scene.holdings, None
    while holdings != before:
        yield holdings
        holdings, before = _next_layer(scene, holdings, head_a_row), holdings


def _next_layer(scene: Scene, holdings: tuple[int, ...], head_a_row: bool) -> tuple[int, ...]:
    """Return the holdings after one more layer; every position attends to all positions that rule 1 allows."""
    holders = [0] * len(scene.pieces)
    for position, holding in enumerate(holdings):
        for piece in members(holding):
            holders[piece] |= scene.rows[position] if head_a_row else 1 << position
    return tuple(
        _union(holdings, _union(holders, holding) & visible)
        for holding, visible in zip(holdings, scene.visible, strict=True)
    )


def _union(sets: Sequence[int], numbers: int) -> int:
    """Return the union of the sets whose indices are members of `numbers`."""
    union = 0
    for number in members(numbers):
        union |= sets[number]
    return union
