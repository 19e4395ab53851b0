"""By what models tell rows apart: one that goes by what rows hold, one that goes by places, and what is made of it."""

from __future__ import annotations

import pytest
from by_place import GoesByPlace

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.witness import build_witness
from studies.conditional import facts_that_meet, needs_what_meets
from studies.tools.by_place import ByPlace, RowsMoved
from studies.tools.moving_rows import ask_by_place


@pytest.mark.parametrize("chains", [2, 3, 4])
def test_who_goes_by_places_brings_the_next_chains(chains: int) -> None:
    problem = RetrievalProblem(hops=1, chains=chains, symbols="unit")
    found = ask_by_place("m", GoesByPlace(problem), problem, (1,), sequences=64)
    assert found.losses == (0.0,)
    reads, chooses = found.moved
    assert (reads.fact, reads.layer, reads.beside) == (1, 1, 0.0)
    assert reads.by_pattern == reads.by_writing
    assert reads.loss(1) > 1
    assert (chooses.layer, chooses.by_writing) == (2, (0.0,))  # what it brings is right in both
    assert chooses.by_pattern[0] > 1
    assert (reads.by_choice, chooses.by_choice) == ((0.0,), chooses.by_pattern)  # by what stands at other rows' places
    assert found.makes(1)
    assert found.goes_by_place(1)


@pytest.mark.parametrize("hops", [1, 3])
def test_who_goes_by_what_rows_hold_does_not_notice(hops: int) -> None:
    witness = build_witness(hops, chains=3)
    facts = tuple(range(1, hops + 1))
    found = ask_by_place("m", witness.transformer, witness.problem, facts, sequences=64)
    assert len(found.moved) == hops * witness.transformer.shape.layers
    for moved in found.moved:
        assert moved.by_pattern == pytest.approx(found.losses, abs=1e-3)
        assert moved.by_writing == pytest.approx(found.losses, abs=1e-3)
        assert moved.by_choice == pytest.approx(found.losses, abs=1e-3)
        assert moved.beside > 1
    assert not any(found.goes_by_place(look_up) for look_up in facts)


def test_which_facts_meet() -> None:
    assert facts_that_meet("relatives") == (2,)
    assert facts_that_meet("functions") == (1, 2)
    assert needs_what_meets("relatives") == needs_what_meets("functions") == 3


def test_a_look_up_is_lost_in_any_layer_by_both_ways() -> None:
    moved = (
        RowsMoved(2, 1, (0.0, 0.1, 0.2), (0.0, 0.1, 0.1), (0.0, 0.1, 0.1), 2.0),
        RowsMoved(2, 2, (0.0, 1.9, 0.16), (1.9, 0.4, 0.3), (0.0, 0.1, 0.1), 0.1),
    )
    found = ByPlace("m", (0.0, 0.1, 0.1), moved)
    assert [moved[1].loss(look_up) for look_up in (1, 2, 3)] == [0.0, 0.4, 0.16]
    assert [found.rise(look_up) for look_up in (1, 2, 3)] == pytest.approx([0.0, 0.3, 0.06])
    assert [found.goes_by_place(look_up) for look_up in (1, 2, 3)] == [False, True, True]
    choice = ByPlace("m", (0.0,), (RowsMoved(1, 1, (1.0,), (0.0,), (0.9,), 0.0),))
    assert choice.rise(1) == 0.9  # by choice alone
    unmade = ByPlace("m", (0.0, 0.1, 0.31), moved)
    assert not unmade.makes(3)
    assert not unmade.goes_by_place(3)
