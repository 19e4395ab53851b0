"""Lemmas 1 to 3 and Theorem 1 as properties of the simulation; scenes; shortest schedules and delivery along paths."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations, permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_models import pointer_doubling

from hopscope.errors import InputError
from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import answer_role, role_names, symbol_of, text_role_names
from hopscope.problem.vectors import sample
from hopscope.theory.attention_schedule import shortest_schedule
from hopscope.theory.depth import minimum_in_order, minimum_one_head, minimum_paths, minimum_without_mask
from hopscope.theory.information_flow import flow_until, min_layers, simulate
from hopscope.theory.path_flow import deliver
from hopscope.theory.scene import members, place_in_sequence, place_in_text, problem_scene, reachability, text_scene

problems = st.builds(
    RetrievalProblem,
    hops=st.integers(1, 30),
    chains=st.integers(1, 3),
    order=st.sampled_from(["deepest-first", "shallowest-first"]),
    position=st.sampled_from(["token", "pair"]),
    causal=st.booleans(),
)


@given(problems)
def test_lemma_1_only_neighbours_share_before_any_layer(problem: RetrievalProblem) -> None:
    holdings = problem_scene(problem).holdings
    at = [reachability(role, problem.hops) for role in range(len(holdings))]
    for a, own in enumerate(holdings):
        for b, other in enumerate(holdings):
            assert bool(own & other) == (abs(at[a] - at[b]) <= 1)


@given(problems, st.integers(0, 6))
def test_lemmas_2_and_3_and_theorem_1(problem: RetrievalProblem, layers: int) -> None:
    flow = simulate(problem, layers)
    for holding in flow.holdings[layers]:
        pieces = members(holding)
        assert pieces == list(range(pieces[0], pieces[-1] + 1))
        assert len(pieces) <= 3**layers + 1
    if 3**layers < 2 * problem.hops:
        assert f"x{problem.hops}" not in flow.asked(layers)


@given(problems)
def test_positions_see_what_the_generator_puts_before_them(problem: RetrievalProblem) -> None:
    batch = sample(replace(problem, symbol_dim=1), 1, torch.Generator().manual_seed(0))
    scene, roles = problem_scene(problem), 2 * problem.hops + 1
    for chain in range(problem.chains):
        places = [place_in_sequence(problem, chain, role) for role in range(roles)]
        drawn = batch.place[0, chain].tolist()
        assert sorted(range(roles), key=places.__getitem__) == sorted(range(roles), key=drawn.__getitem__)
        for role in range(roles):
            seen = [other for other in range(roles) if not problem.causal or drawn[other] <= drawn[role]]
            assert members(scene.visible[role]) == seen


def test_without_codes_a_pair_shares_nothing() -> None:
    with pytest.raises(InputError, match=r"x3 never reaches the question: .* with position='none'"):
        min_layers(RetrievalProblem(hops=3, position="none"))
    with pytest.raises(InputError, match="problem must be an"):
        min_layers(3)


def problem(hops: int, order: str = "deepest-first") -> RetrievalProblem:
    return RetrievalProblem(hops=hops, chains=1, order=order, curriculum=False)


@given(st.integers(1, 20), st.sampled_from(["deepest-first", "shallowest-first"]))
def test_words_of_text_hold_the_symbols_of_vectors_or_their_place(hops: int, order: str) -> None:
    scene, vectors = text_scene(problem(hops, order)), problem_scene(problem(hops, order))
    assert scene.pieces == vectors.pieces
    assert scene.holdings[: 2 * hops + 1] == vectors.holdings
    for k in range(1, hops + 1):
        for role in (scene.positions.index(f"x{k - 1}="), scene.positions.index(f"x{k}.")):
            assert scene.names(scene.holdings[role]) == (f"p{k}",)
            assert (problem(hops, order).fact_of(role), symbol_of(role, hops)) == (k, -1)
    assert scene.names(scene.holdings[answer_role(hops)]) == ("p0",)
    assert scene.holdings[scene.positions.index("text")] == 0


@given(st.integers(1, 20), st.sampled_from(["deepest-first", "shallowest-first"]))
def test_order_of_the_roles_of_text(hops: int, order: str) -> None:
    asked, names = problem(hops, order), text_role_names(hops)
    reading = [names[role] for role in sorted(range(len(names)), key=lambda role: place_in_text(asked, role))]
    lines = [[f"x{k - 1}>", f"x{k - 1}=", f">x{k}", f"x{k}."] for k in asked.blocks]
    assert reading == [*(word for line in lines for word in line), "x0?", "text", "answer"]
    scene = text_scene(asked)
    for place, name in enumerate(reading):
        seen = {scene.positions[other] for other in members(scene.visible[scene.positions.index(name)])}
        assert seen == set(reading[: place + 1])


@given(st.integers(1, 40))
def test_text_needs_at_most_one_layer_more_than_vectors(hops: int) -> None:
    needed = len(flow_until(text_scene(problem(hops))).holdings) - 1
    assert minimum_in_order(problem(hops)) <= needed <= minimum_in_order(problem(hops)) + 1


@pytest.mark.parametrize(
    ("paths", "delivered"),
    [
        (["L1.H1 >x1 -> x0>", "L1.H1 answer -> x0?", "L2.H1 answer -> >x1"], True),
        (["L1.H1 >x1 -> x0>", "L2.H1 x0? -> >x1", "L3.H1 answer -> x0?"], True),
        (["L1.H1 >x1 -> x0>", "L2.H1 answer -> >x1"], False),
        (["L1.H1 answer -> x0?", "L2.H1 answer -> >x1"], False),
        (["L1.H1 x1. -> >x1", "L2.H1 x1. -> x0>", "L3.H1 x0? -> x1.", "L4.H1 answer -> x0?"], True),
    ],
)
def test_delivery_along_paths_of_text(paths: list[str], delivered: bool) -> None:
    flow = deliver(1, [AttentionPath.parse(path, text_role_names(1)) for path in paths], text_scene(problem(1)))
    assert flow.delivered == delivered


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


def test_delivery_names_the_path_that_assumption_1_forbids() -> None:
    too_far = path("L1.H1 x0? -> >x3")
    delivery = deliver(3, [too_far])
    assert delivery.refused == (too_far,)
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
    with pytest.raises(InputError, match="with 5 roles needs a layer of at least 0 and roles 0 to 4, got"):
        deliver(2, [AttentionPath(*bad)])
