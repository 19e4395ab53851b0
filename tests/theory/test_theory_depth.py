"""Formulas for depth and orders of the pairs, with one head, many, or one head per row, against independent searches.

The searches are written from Section 5 alone: a sequence is a list of (symbol, pair), without roles or runs.
"""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopscope.errors import InputError
from hopscope.problem.retrieval import NAMED_ORDERS, RetrievalProblem
from hopscope.theory.depth import (
    best_order,
    minimum_best_order,
    minimum_causal,
    minimum_head_a_row,
    minimum_in_order,
    minimum_of_hop,
    minimum_one_head,
    minimum_without_mask,
    reach,
    theorem_1_bound,
)
from hopscope.theory.information_flow import min_layers, simulate
from hopscope.theory.scene import members, problem_scene, reachability

ORDERS = tuple(NAMED_ORDERS)


def layout(hops: int, order: str) -> list[tuple[int, int]]:
    """One chain in its order in the sequence: (symbol, pair), pair 0 for the query, which is last."""
    pairs = [*range(1, hops + 1)] if order[0].isalpha() else [int(pair) for pair in order.split(",")]
    pairs = pairs[::-1] if order == "deepest-first" else pairs
    return [(symbol, pair) for pair in pairs for symbol in (pair - 1, pair)] + [(0, 0)]


def breadth_first_depth(hops: int, causal: bool, order: str = "deepest-first") -> int:
    """Layers until the last position holds symbol D when every position attends to all it shares something with."""
    holds = np.zeros((2 * hops + 1, 2 * hops + 2), dtype=bool)  # columns are symbols 0 ... D, then pairs 0 ... D
    for row, (symbol, pair) in enumerate(layout(hops, order)):
        holds[row, symbol] = holds[row, hops + 1 + pair] = True
    visible = np.tri(len(holds), dtype=bool) if causal else np.ones((len(holds),) * 2, dtype=bool)
    layers = 0
    while not holds[-1, hops]:
        attends = ((holds.astype(np.int32) @ holds.T.astype(np.int32)) > 0) & visible
        holds = (attends.astype(np.int32) @ holds.astype(np.int32)) > 0
        layers += 1
    return layers


def relaxed_one_place_depth(hops: int, causal: bool, order: str = "deepest-first") -> int:
    """A lower bound for one place a layer: every position may be in any state it could reach if it alone mattered."""
    places = layout(hops, order)
    fronts = [{frozenset({("x", symbol), ("p", pair)})} for symbol, pair in places]
    layers = 0
    while not any(("x", hops) in held for held in fronts[-1]):
        fronts = [relaxed(fronts, i, causal) for i in range(len(places))]
        layers += 1
    return layers


def relaxed(fronts: list[set[frozenset[object]]], i: int, causal: bool) -> set[frozenset[object]]:
    seen = fronts[: i + 1] if causal else fronts
    reached = {held | other for held in fronts[i] for front in seen for other in front if held & other} | fronts[i]
    return {held for held in reached if not any(held < other for other in reached)}


@pytest.mark.parametrize("hops", [*range(1, 20), 26, 27, 31, 32, 63, 64])
def test_formulas_simulation_and_search_agree(hops: int) -> None:
    assert minimum_without_mask(hops) == breadth_first_depth(hops, causal=False)
    assert min_layers(RetrievalProblem(hops=hops, causal=False)) == minimum_without_mask(hops)
    for order in ORDERS:
        assert minimum_causal(hops) == breadth_first_depth(hops, causal=True, order=order)
        assert min_layers(RetrievalProblem(hops=hops, order=order)) == minimum_causal(hops)


@pytest.mark.parametrize("hops", [1, 2, 3, 4, 5, 7, 8, 11])
@pytest.mark.parametrize("causal", [False, True])
def test_one_head_cannot_be_shorter(hops: int, causal: bool) -> None:
    # That it is enough: test_theory_flow.py.
    assert relaxed_one_place_depth(hops, causal) == minimum_one_head(hops)


@given(st.integers(1, 10**60))
def test_formulas_are_exact_far_beyond_floating_point(hops: int) -> None:
    assert 3 ** (theorem_1_bound(hops) - 1) < 2 * hops <= 3 ** theorem_1_bound(hops)
    assert 3 ** (minimum_without_mask(hops) - 1) < 4 * hops + 1 <= 3 ** minimum_without_mask(hops)
    assert 2 ** (minimum_causal(hops) - 2) <= hops < 2 ** (minimum_causal(hops) - 1)


def ordered(*pairs: int) -> RetrievalProblem:
    return RetrievalProblem(len(pairs), chains=1, order=",".join(map(str, pairs)))


def orders(most: int) -> st.SearchStrategy[RetrievalProblem]:
    sizes = st.integers(1, most)
    return sizes.flatmap(lambda hops: st.permutations(range(1, hops + 1))).map(lambda pairs: ordered(*pairs))


def test_all_orders_of_short_chains() -> None:
    expected: list[dict[int, int]] = [{2: 1}, {3: 2}, {3: 6}, {3: 8, 4: 16}, {4: 120}, {4: 720}]
    for hops, counts in enumerate(expected, start=1):
        orders = (",".join(map(str, order)) for order in permutations(range(1, hops + 1)))
        assert Counter(breadth_first_depth(hops, causal=True, order=order) for order in orders) == counts
        assert (min(counts), max(counts)) == (minimum_best_order(hops), minimum_causal(hops))


@pytest.mark.parametrize("hops", [*range(1, 41), 64, 121, 122])
def test_the_best_order_reaches_the_bound(hops: int) -> None:
    pairs = best_order(hops)
    assert sorted(pairs) == list(range(1, hops + 1))
    order = ",".join(map(str, pairs))
    assert breadth_first_depth(hops, causal=True, order=order) == minimum_best_order(hops)
    assert minimum_in_order(RetrievalProblem(hops, order=order)) == minimum_best_order(hops)


@pytest.mark.parametrize("lookup", [0, 4])
def test_a_symbol_that_no_chain_has_is_refused(lookup: int) -> None:
    assert [min_layers(hops=3, lookup=number) for number in (1, 2, 3)] == [2, 3, 3]
    assert [reach(layers) for layers in range(5)] == [0, 0, 1, 3, 7]
    with pytest.raises(InputError, match="lookup must be"):
        min_layers(hops=3, lookup=lookup)


@given(orders(40))
def test_every_order_lies_between_the_best_and_the_two_block_orders(problem: RetrievalProblem) -> None:
    depth = min_layers(problem)
    assert minimum_best_order(problem.hops) <= depth <= minimum_causal(problem.hops)
    assert depth == breadth_first_depth(problem.hops, causal=True, order=problem.order) == minimum_in_order(problem)


@given(orders(60), st.integers(1, 5))
def test_bounds_of_the_proofs_hold_for_every_position(problem: RetrievalProblem, layers: int) -> None:
    """docs/theory.md; e{i} is bit i + 1 of a holding; q bounds runs from above, 2^t - 2 the query's from below."""
    q, end = 3 ** (layers - 1), 2 * problem.hops
    holdings = simulate(problem, layers).holdings[layers]
    for role, holding in enumerate(holdings):
        i, held = reachability(role, problem.hops), members(holding)
        first, last = held[0] - 1, held[-1] - 1
        if i == 0:
            assert min(2**layers - 2, end) <= last <= q
        elif i % 2:
            assert i - 2 - q <= first
            assert last == i
        else:
            assert i - 1 - q <= first
            assert last <= i + q


def test_an_earlier_hop_needs_the_layers_of_its_shorter_chain():
    """In the order 1,2,4,3 the first three pairs come shallowest first; hops not asked for change nothing."""
    best = RetrievalProblem(hops=4, order="1,2,4,3", asked=(2, 4), position="none")  # known nevertheless
    assert [minimum_of_hop(best, hop) for hop in (1, 2, 3, 4)] == [2, 3, 3, 3]
    assert [minimum_of_hop(best, hop, one_head=True) for hop in (1, 2, 3, 4)] == [2, 3, 3, 4]
    alone = RetrievalProblem(hops=8, curriculum=False)
    assert [minimum_of_hop(alone, hop) for hop in range(1, 9)] == [2, 3, 3, 4, 4, 4, 4, 5]
    unmasked = RetrievalProblem(hops=8, causal=False)
    assert [minimum_of_hop(unmasked, hop) for hop in range(1, 9)] == [2, 2, 3, 3, 3, 3, 4, 4]


def depth_of_rows(hops: int, order: tuple[int, ...] | None) -> int:
    """An oracle that knows rows alone: row k holds symbols k - 1 and k, the question 0; rows that share one get all.

    Rows are in the given order, first to last; None without a mask.
    """
    held = {row: {max(row - 1, 0), row} for row in range(hops + 1)}
    place = {row: number for number, row in enumerate((*(order or range(1, hops + 1)), 0))}
    for layer in range(hops + 1):
        if hops in held[0]:
            return layer
        seen = {row: [other for other in held if other and (not order or place[other] <= place[row])] for row in held}
        held = {row: own.union(*(held[o] for o in seen[row] if own & held[o])) for row, own in held.items()}
    raise AssertionError("it never arrives")


@pytest.mark.parametrize("hops", [*range(1, 12), 27, 32, 40])
def test_head_a_row_formulas_simulation_and_search_agree(hops: int) -> None:
    """Theorem 7, and that it meets the paper's Theorem 1 without a mask."""
    free = RetrievalProblem(hops, causal=False)
    assert min_layers(free, head_a_row=True) == depth_of_rows(hops, None) == theorem_1_bound(hops)
    assert minimum_in_order(free, head_a_row=True) == theorem_1_bound(hops)
    for order in NAMED_ORDERS:
        problem = RetrievalProblem(hops, order=order)
        assert min_layers(problem, head_a_row=True) == depth_of_rows(hops, problem.blocks) == minimum_head_a_row(hops)
        assert minimum_in_order(problem, head_a_row=True) == minimum_in_order(problem) - 1
        assert minimum_of_hop(problem, hops, head_a_row=True) == minimum_head_a_row(hops)


def test_head_a_row_saves_one_layer_in_every_order() -> None:
    for order in (order for hops in range(1, 6) for order in permutations(range(1, hops + 1))):
        problem = ordered(*order)
        assert min_layers(problem, head_a_row=True) == min_layers(problem) - 1 == depth_of_rows(len(order), order)


def test_a_row_is_a_pair_and_a_question_is_alone() -> None:
    assert [members(row) for row in problem_scene(RetrievalProblem(2)).rows] == [[0, 1], [0, 1], [2, 3], [2, 3], [4]]
