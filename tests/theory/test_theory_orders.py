"""Orders of the pairs: Theorems 4 and 6, their proofs' claims as properties, and the order that is built."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import pytest
from flow_oracle import breadth_first_depth, depths_of_all_orders, exhaustive_one_place_depth, relaxed_one_place_depth
from hypothesis import given
from hypothesis import strategies as st

from hopscope.errors import InputError
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.delivery import deliver
from hopscope.theory.depth import (
    best_order,
    minimum_best_order,
    minimum_causal,
    minimum_in_order,
    minimum_of_hop,
    minimum_one_head,
    minimum_paths,
)
from hopscope.theory.information_flow import minimum_layers, simulate
from hopscope.theory.scene import members, place_in_sequence, reachability
from hopscope.theory.schedule import shortest_schedule


def ordered(*pairs: int) -> RetrievalProblem:
    return RetrievalProblem(len(pairs), chains=1, order=",".join(map(str, pairs)))


def orders(most: int) -> st.SearchStrategy[RetrievalProblem]:
    sizes = st.integers(1, most)
    return sizes.flatmap(lambda hops: st.permutations(range(1, hops + 1))).map(lambda pairs: ordered(*pairs))


@pytest.mark.parametrize(
    ("hops", "counts"),
    [(1, {2: 1}), (2, {3: 2}), (3, {3: 6}), (4, {3: 8, 4: 16}), (5, {4: 120}), (6, {4: 720}), (7, {4: 5040})],
)
def test_all_orders_of_short_chains(hops: int, counts: dict[int, int]) -> None:
    assert depths_of_all_orders(hops) == counts
    assert (min(counts), max(counts)) == (minimum_best_order(hops), minimum_causal(hops))


def test_all_orders_of_eight() -> None:
    assert depths_of_all_orders(8) == {4: 32_256, 5: 8_064}
    assert (minimum_best_order(8), minimum_causal(8)) == (4, 5)


def test_four_hops_in_three_layers_when_pair_3_sees_its_neighbours() -> None:
    for pairs in permutations((1, 2, 3, 4)):
        sees_both = pairs.index(3) > max(pairs.index(2), pairs.index(4))
        assert minimum_layers(ordered(*pairs)) == (3 if sees_both else 4)


@pytest.mark.parametrize("hops", [*range(1, 41), 64, 121, 122])
def test_the_best_order_reaches_the_bound(hops: int) -> None:
    pairs = best_order(hops)
    assert sorted(pairs) == list(range(1, hops + 1))
    order = ",".join(map(str, pairs))
    assert breadth_first_depth(hops, causal=True, order=order) == minimum_best_order(hops)
    assert minimum_in_order(RetrievalProblem(hops, order=order)) == minimum_best_order(hops)


def test_orders_in_numbers() -> None:
    assert best_order(1) == (1,)
    assert best_order(4) == (1, 2, 4, 3)
    assert best_order(13) == (1, 2, 4, 3, 5, 7, 8, 6, 10, 11, 13, 12, 9)
    with pytest.raises(InputError, match="hops must be a whole number of at least 1, got 0"):
        best_order(0)


@pytest.mark.parametrize("layers", range(2, 60))
def test_steps_of_the_formula_stand_where_layers_are_full(layers: int) -> None:
    last = (3 ** (layers - 1) - 1) // 2
    assert minimum_best_order(last) == layers
    assert minimum_best_order(last + 1) == layers + 1


@given(orders(40))
def test_every_order_lies_between_the_best_and_the_two_block_orders(problem: RetrievalProblem) -> None:
    depth = minimum_layers(problem)
    assert minimum_best_order(problem.hops) <= depth <= minimum_causal(problem.hops)
    assert depth == breadth_first_depth(problem.hops, causal=True, order=problem.order) == minimum_in_order(problem)


@given(orders(60), st.integers(1, 5))
def test_the_claims_of_the_proofs_hold_for_every_position(problem: RetrievalProblem, layers: int) -> None:
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


@given(st.integers(2, 5), st.data())
def test_one_hop_beyond_full_layers_is_out_of_reach(layers: int, data: st.DataObject) -> None:
    hops = (3 ** (layers - 1) - 1) // 2 + 1
    pairs = data.draw(st.permutations(range(1, hops + 1)))
    assert minimum_layers(ordered(*pairs)) > layers


@given(orders(40), st.booleans())
def test_schedules_in_any_order_are_lawful_and_look_at_one_place_or_two(
    problem: RetrievalProblem, one_place: bool
) -> None:
    schedule = shortest_schedule(problem, one_place=one_place)
    delivery = deliver(problem.hops, schedule)
    assert delivery.delivered
    assert not delivery.refused
    assert not delivery.idle
    assert schedule[-1].layer + 1 == (minimum_one_head(problem.hops) if one_place else minimum_layers(problem))
    assert len(schedule) == minimum_paths(problem.hops)
    assert max(Counter((path.layer, path.query) for path in schedule).values()) <= 2 - one_place
    for path in schedule:
        assert place_in_sequence(problem, 0, path.key) <= place_in_sequence(problem, 0, path.query)


def test_one_place_a_layer_never_takes_fewer_layers() -> None:
    for pairs in permutations((1, 2, 3)):
        assert exhaustive_one_place_depth(3, causal=True, order=",".join(map(str, pairs))) == minimum_one_head(3)
    for pairs in permutations((1, 2, 3, 4)):
        assert relaxed_one_place_depth(4, causal=True, order=",".join(map(str, pairs))) == minimum_one_head(4)


def test_an_earlier_hop_needs_what_the_pairs_up_to_it_ask_for():
    """In the order 1,2,4,3 the first three pairs stand shallowest first; hops that are left out change nothing."""
    best = RetrievalProblem(hops=4, order="1,2,4,3", asked=(2, 4))
    assert [minimum_of_hop(best, hop) for hop in (1, 2, 3, 4)] == [2, 3, 3, 3]
    assert [minimum_of_hop(best, hop, one_head=True) for hop in (1, 2, 3, 4)] == [2, 3, 3, 4]
    alone = RetrievalProblem(hops=8, curriculum=False)
    assert [minimum_of_hop(alone, hop) for hop in range(1, 9)] == [2, 3, 3, 4, 4, 4, 4, 5]
    unmasked = RetrievalProblem(hops=8, causal=False)
    assert [minimum_of_hop(unmasked, hop) for hop in range(1, 9)] == [2, 2, 3, 3, 3, 3, 4, 4]
