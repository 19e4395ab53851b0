"""What the words of a text know, and what that asks of its depth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import answer_role, end_role, link_role, pair_of, symbol_of, text_role_names
from hopscope.theory.delivery import deliver
from hopscope.theory.depth import minimum_in_order
from hopscope.theory.information_flow import text_layers_needed
from hopscope.theory.scene import chain_scene, members, standing, text_scene


def problem(hops: int, order: str = "deepest-first") -> RetrievalProblem:
    return RetrievalProblem(hops=hops, chains=1, order=order, curriculum=False)


@given(st.integers(1, 20), st.sampled_from(["deepest-first", "shallowest-first"]))
def test_symbols_know_what_they_know_in_vectors_and_other_words_their_place(hops: int, order: str) -> None:
    scene, vectors = text_scene(problem(hops, order)), chain_scene(problem(hops, order))
    assert scene.pieces == vectors.pieces
    assert scene.holdings[: 2 * hops + 1] == vectors.holdings
    for k in range(1, hops + 1):
        for role in (link_role(k, hops), end_role(k, hops)):
            assert scene.names(scene.holdings[role]) == (f"p{k}",)
            assert (pair_of(role, hops), symbol_of(role, hops)) == (k, -1)
    assert scene.names(scene.holdings[answer_role(hops)]) == ("p0",)
    assert scene.holdings[scene.positions.index("text")] == 0


@given(st.integers(1, 20), st.sampled_from(["deepest-first", "shallowest-first"]))
def test_every_line_reads_symbol_link_symbol_end_and_the_answer_is_last(hops: int, order: str) -> None:
    asked, names = problem(hops, order), text_role_names(hops)
    reading = [names[role] for role in sorted(range(len(names)), key=lambda role: standing(asked, role))]
    lines = [[f"x{k - 1}>", f"x{k - 1}=", f">x{k}", f"x{k}."] for k in asked.blocks]
    assert reading == [*(word for line in lines for word in line), "x0?", "text", "answer"]
    scene = text_scene(asked)
    for place, name in enumerate(reading):
        seen = {scene.positions[other] for other in members(scene.visible[scene.positions.index(name)])}
        assert seen == set(reading[: place + 1])


@given(st.integers(1, 40))
def test_text_needs_no_fewer_layers_than_vectors_and_one_more_at_the_most(hops: int) -> None:
    needed = text_layers_needed(problem(hops))
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
def test_what_paths_of_a_text_carry(paths: list[str], delivered: bool) -> None:
    flow = deliver(1, [AttentionPath.parse(path, text_role_names(1)) for path in paths], text_scene(problem(1)))
    assert flow.delivered == delivered
