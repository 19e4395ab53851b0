"""Lemmas 1 to 3 and Theorem 1 as properties of the simulation, and what the scene says of a problem."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from flow_oracle import start
from hypothesis import given
from hypothesis import strategies as st

from hopscope.errors import InputError
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import sample
from hopscope.theory.information_flow import minimum_layers, simulate
from hopscope.theory.scene import chain_scene, members, place_in_sequence, reachability, role_at

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
    scene, roles = chain_scene(problem), 2 * problem.hops + 1
    for a, mine in enumerate(scene.holdings):
        for b, theirs in enumerate(scene.holdings):
            steps = abs(reachability(a % roles, problem.hops) - reachability(b % roles, problem.hops))
            assert bool(mine & theirs) == (a // roles == b // roles and steps <= 1)


@given(problems, st.integers(0, 6))
def test_lemmas_2_and_3_runs_of_bounded_length(problem: RetrievalProblem, layers: int) -> None:
    for holding in simulate(problem, layers).holdings[layers]:
        pieces = members(holding)
        assert pieces == list(range(pieces[0], pieces[-1] + 1))
        assert len(pieces) <= 3**layers + 1


@given(st.integers(0, 4))
def test_lemma_3_is_met_in_the_middle_of_a_long_chain(layers: int) -> None:
    flow = simulate(RetrievalProblem(hops=50, chains=1, causal=False), layers)
    assert max(holding.bit_count() for holding in flow.holdings[layers]) == 3**layers + 1


@given(problems, st.integers(0, 6))
def test_theorem_1(problem: RetrievalProblem, layers: int) -> None:
    if 3**layers < 2 * problem.hops:
        assert f"x{problem.hops}" not in simulate(problem, layers).asked(layers)


@given(problems)
def test_every_hop_arrives_when_a_chain_of_that_length_would(problem: RetrievalProblem) -> None:
    layers = minimum_layers(problem)
    flow = simulate(problem, layers)
    for hop in range(1, problem.hops + 1):
        first = next(t for t in range(layers + 1) if f"x{hop}" in flow.asked(t))
        assert first == minimum_layers(replace(problem, hops=hop))


@given(problems, st.integers(0, 6))
def test_chains_never_mix(problem: RetrievalProblem, layers: int) -> None:
    alone = simulate(replace(problem, chains=1), layers).holdings[layers]
    together = simulate(problem, layers).holdings[layers]
    width = 2 * problem.hops + 2
    expected = [holding << chain * width for chain in range(problem.chains) for holding in alone]
    assert list(together) == expected


@given(problems)
def test_knowledge_only_grows_and_masks_only_take_away(problem: RetrievalProblem) -> None:
    flow, free = simulate(problem, 4), simulate(replace(problem, causal=False), 4)
    for t in range(5):
        for position, holding in enumerate(flow.holdings[t]):
            assert holding & ~free.holdings[t][position] == 0
            assert t == 0 or flow.holdings[t - 1][position] & ~holding == 0


@given(problems)
def test_scene_stands_where_the_generator_puts_it(problem: RetrievalProblem) -> None:
    batch = sample(replace(problem, symbol_dim=1), 1, torch.Generator().manual_seed(0))
    scene, roles = chain_scene(problem), 2 * problem.hops + 1
    for chain in range(problem.chains):
        places = [place_in_sequence(problem, chain, role) for role in range(roles)]
        really = batch.place[0, chain].tolist()
        assert sorted(range(roles), key=places.__getitem__) == sorted(range(roles), key=really.__getitem__)
        for role in range(roles):
            seen = [other for other in range(roles) if not problem.causal or really[other] <= really[role]]
            own = scene.visible[chain * roles + role] >> chain * roles & (1 << roles) - 1
            assert members(own) == seen


@pytest.mark.parametrize("order", ["deepest-first", "shallowest-first"])
def test_scene_shares_what_the_text_says(order: str) -> None:
    scene = chain_scene(RetrievalProblem(hops=4, chains=1, order=order))  # type: ignore[arg-type]
    holds = start(4, order)
    in_sequence = sorted(
        range(9),
        key=lambda role: place_in_sequence(RetrievalProblem(4, 1, order=order), 0, role),  # type: ignore[arg-type]
    )
    for row, role in enumerate(in_sequence):
        symbol, pair = (int(name[1:]) for name in sorted(scene.names(scene.holdings[role]), reverse=True))
        assert holds[row, symbol]
        assert holds[row, 5 + pair]


@given(st.integers(1, 20), st.data())
def test_reachability_is_a_numbering(hops: int, data: st.DataObject) -> None:
    role = data.draw(st.integers(0, 2 * hops))
    assert role_at(reachability(role, hops), hops) == role


def test_without_codes_nothing_joins_a_pair() -> None:
    with pytest.raises(InputError, match=r"x3 cannot reach the query with position='none'.*use position='token'"):
        minimum_layers(RetrievalProblem(hops=3, position="none"))


def test_layers_must_be_a_count() -> None:
    with pytest.raises(InputError, match="layers must be at least 0, got -1"):
        simulate(RetrievalProblem(hops=3), -1)
