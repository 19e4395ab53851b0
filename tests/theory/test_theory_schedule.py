"""Shortest schedules, and delivery along given paths."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_models import pointer_doubling

from hopscope.errors import InputError
from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import role_names
from hopscope.theory.attention_schedule import shortest_schedule
from hopscope.theory.depth import minimum_one_head, minimum_paths, minimum_without_mask
from hopscope.theory.information_flow import min_layers, simulate
from hopscope.theory.path_flow import deliver
from hopscope.theory.scene import place_in_sequence

block_orders = st.sampled_from(["deepest-first", "shallowest-first"])
settings = st.builds(RetrievalProblem, st.integers(1, 40), st.just(2), order=block_orders, causal=st.booleans())
pairs_in_any_order = st.integers(1, 40).flatmap(lambda hops: st.permutations(range(1, hops + 1)))
settings |= pairs_in_any_order.map(lambda pairs: RetrievalProblem(len(pairs), 2, order=",".join(map(str, pairs))))


def path(text: str, hops: int = 3) -> AttentionPath:
    return AttentionPath.parse(text, role_names(hops))


@given(settings, st.booleans())
def test_a_schedule_delivers_in_the_fewest_layers_and_paths(problem: RetrievalProblem, one_place: bool) -> None:
    schedule = pointer_doubling(problem) if one_place else shortest_schedule(problem)
    delivery = deliver(problem.hops, schedule)
    assert delivery.delivered
    assert not delivery.refused
    assert not delivery.idle
    assert delivery.hops == tuple(range(1, problem.hops + 1))
    assert schedule[-1].layer + 1 == (minimum_one_head(problem.hops) if one_place else min_layers(problem))
    assert len(schedule) == minimum_paths(problem.hops)
    if problem.causal or one_place:
        assert max(Counter((path.layer, path.query) for path in schedule).values()) <= 2 - one_place
    if problem.causal:
        for path in schedule:
            assert place_in_sequence(problem, 0, path.key) <= place_in_sequence(problem, 0, path.query)


@pytest.mark.parametrize(("hops", "layers"), [(1, 3), (2, 2)])
def test_no_smaller_schedule_exists(hops: int, layers: int) -> None:
    moves = [AttentionPath(t, 0, *pair) for t in range(layers) for pair in permutations(range(2 * hops + 1), 2)]
    for fewer in combinations(moves, 2 * hops - 1):
        assert not deliver(hops, fewer).delivered


@given(st.integers(1, 8), st.data())
def test_no_paths_deliver_more_than_the_simulation(hops: int, data: st.DataObject) -> None:
    """Random circuits: all that arrives was possible, and x{D} never arrives before the exact minimum."""
    role = st.integers(0, 2 * hops)
    paths = data.draw(st.lists(st.builds(AttentionPath, st.integers(0, 3), st.just(0), role, role), max_size=60))
    delivery = deliver(hops, paths)
    free = simulate(RetrievalProblem(hops=hops, causal=False), 4)
    for layer, held in enumerate(delivery.growth):
        assert set(held) <= set(free.asked(layer))
    layers = max((path.layer + 1 for path in paths), default=0)
    assert not (delivery.delivered and layers < minimum_without_mask(hops))
    assert delivery.delivered == (delivery.broken == "")
    assert delivery.delivered_if_waived or not delivery.delivered
    assert not set(delivery.refused) & set(delivery.idle)


def test_delivery_names_the_path_that_assumption_1_forbids() -> None:
    too_far = path("L1.H1 x0? -> >x3")
    delivery = deliver(3, [too_far])
    assert delivery.refused == (too_far,)
    assert delivery.delivered_if_waived
    assert delivery.growth == (("p0", "x0"), ("p0", "x0"))
    assert delivery.broken == (
        "the query gets as far as x0, not to x3: Assumption 1 breaks at layer 1 head 1: x0? -> >x3, where the two "
        "positions share nothing by then"
    )


def test_a_layer_reads_the_state_before_it() -> None:
    # In one layer >x1 learns x0 and the query attends to >x1: too late, they share nothing yet.
    pair, now, later = (path(text, 1) for text in ("L1.H1 >x1 -> x0>", "L1.H1 x0? -> >x1", "L2.H1 x0? -> >x1"))
    assert deliver(1, [pair, now]).refused == (now,)
    assert deliver(1, [pair, later]).delivered


@pytest.mark.parametrize("bad", [(-1, 0, 4, 1), (0, 0, 5, 1), (0, 0, 4, -1)])
def test_bad_paths(bad: tuple[int, int, int, int]) -> None:
    with pytest.raises(InputError, match="a path of a chain with 5 roles has a layer from 0 on and roles 0 to 4, got"):
        deliver(2, [AttentionPath(*bad)])
