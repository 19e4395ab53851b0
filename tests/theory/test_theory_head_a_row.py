"""A head a row: who shares something with one position of a row can attend to any of it."""

from __future__ import annotations

from itertools import permutations

import pytest

from hopscope.problem.retrieval import NAMED_ORDERS, RetrievalProblem
from hopscope.theory.depth import minimum_head_a_row, minimum_in_order, minimum_of_hop, theorem_1_bound
from hopscope.theory.information_flow import minimum_layers
from hopscope.theory.scene import members, problem_scene


def of_rows(hops: int, order: tuple[int, ...] | None) -> int:
    """An oracle that knows rows alone: row k holds symbols k - 1 and k, the question 0; who shares one gets all.

    Args:
        hops: D.
        order: of the rows, first to last; None without a mask.
    """
    held = {row: {max(row - 1, 0), row} for row in range(hops + 1)}
    place = {row: number for number, row in enumerate((*(order or range(1, hops + 1)), 0))}
    for layer in range(hops + 1):
        if hops in held[0]:
            return layer
        held = {
            row: own.union(
                *(
                    theirs
                    for other, theirs in held.items()
                    if other and own & theirs and (order is None or place[other] <= place[row])
                )
            )
            for row, own in held.items()
        }
    raise AssertionError("it never arrives")


def written(order: tuple[int, ...]) -> str:
    return ",".join(map(str, order))


@pytest.mark.parametrize("hops", [*range(1, 12), 27, 32, 40])
def test_formulas_simulation_and_rows_alone_agree(hops: int) -> None:
    """Theorem 7, and that it meets the paper's Theorem 1 without a mask."""
    free = RetrievalProblem(hops, causal=False)
    assert minimum_layers(free, head_a_row=True) == of_rows(hops, None) == theorem_1_bound(hops)
    assert minimum_in_order(free, head_a_row=True) == theorem_1_bound(hops)
    for order in NAMED_ORDERS:
        problem = RetrievalProblem(hops, order=order)
        blocks = tuple(problem.blocks)
        assert minimum_layers(problem, head_a_row=True) == of_rows(hops, blocks) == minimum_head_a_row(hops)
        assert minimum_in_order(problem, head_a_row=True) == minimum_in_order(problem) - 1
        assert minimum_of_hop(problem, hops, head_a_row=True) == minimum_head_a_row(hops)


@pytest.mark.parametrize("hops", range(1, 6))
def test_under_a_mask_every_order_takes_one_layer_less(hops: int) -> None:
    for order in permutations(range(1, hops + 1)):
        problem = RetrievalProblem(hops, order=written(order))
        assert minimum_layers(problem, head_a_row=True) == minimum_layers(problem) - 1 == of_rows(hops, order)


def test_graphs() -> None:
    """Where retrieval steps meet a layer is saved by one of the two: the studies see trained models do the same."""
    for name, hops in (("functions", 3), ("relatives", 4)):
        problem = RetrievalProblem(hops, graph=name)
        assert minimum_in_order(problem, head_a_row=True) == minimum_of_hop(problem, hops, head_a_row=True) == 3


@pytest.mark.parametrize(
    "problem", [RetrievalProblem(3), RetrievalProblem(3, graph="functions")], ids=["chain", "graph"]
)
def test_a_row_is_a_fact_and_questions_stand_alone(problem: RetrievalProblem) -> None:
    scene, places = problem_scene(problem), problem.facts.places
    for position in range(scene.roles):
        own = places[position]
        expected = [n for n, other in enumerate(places) if other.step == own.step] if own.step else [position]
        assert members(scene.rows[position]) == expected
    for row in scene.distractors:
        for position in (one for one in row if one >= 0):
            assert set(members(scene.rows[position])) <= set(row)
