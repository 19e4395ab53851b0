"""By which strategy a circuit answers."""

from __future__ import annotations

import random

import pytest
from known_run import DOUBLING, SERIAL, made
from small_models import pointer_doubling

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.attention_schedule import shortest_schedule
from hopscope.theory.depth import best_order
from hopscope.theory.witness import build_witness


def test_serial_and_doubling() -> None:
    assert made(*SERIAL).strategy == "serial"
    assert made(*DOUBLING).strategy == "doubling"
    assert made().strategy == "none"


def test_line_by_line_is_no_doubling() -> None:
    """Each layer adds one pair: a pair jumps to its neighbour when that has jumped; twice the same jump is one."""
    ties = ((1, 1, ">x1", "x0>"), (1, 1, ">x2", "x1>"), (1, 1, ">x3", "x2>"))
    one_by_one = made(*ties, (2, 1, ">x2", ">x3"), (3, 1, ">x1", ">x2"), (4, 1, "x0?", ">x1"))
    assert one_by_one.strategy == "line by line"
    assert made(*ties, (2, 1, ">x1", ">x2"), (3, 1, ">x1", ">x2"), (4, 1, "x0?", ">x1")).strategy == "doubling"
    assert made(*ties, (2, 1, ">x2", ">x3"), (2, 1, ">x1", ">x2"), (3, 1, "x0?", ">x1")).strategy == "doubling"


def test_four_pairs_line_by_line() -> None:
    """By pairs that wait for their neighbour, and by one head that joins all neighbours, again and again."""
    ties = tuple((1, 1, f">x{k}", f"x{k - 1}>") for k in range(1, 5))
    waiting = ((2, 1, ">x3", ">x4"), (3, 1, ">x2", ">x3"), (4, 1, ">x1", ">x2"), (5, 1, "x0?", ">x1"))
    assert made(*ties, *waiting, hops=4).strategy == "line by line"
    again = tuple((layer, 1, f">x{k}", f">x{k + 1}") for layer in (2, 3, 4) for k in (1, 2, 3))
    assert made(*ties, *again, (5, 1, "x0?", ">x1"), hops=4).strategy == "line by line"


def orders(hops: int) -> list[RetrievalProblem]:
    """No mask, the two named orders, the best one, and ten at random."""
    drawn = random.Random(hops)
    pairs = [best_order(hops), *(drawn.sample(range(1, hops + 1), hops) for _ in range(10))]
    named = [RetrievalProblem(hops), RetrievalProblem(hops, order="shallowest-first")]
    by_number = [RetrievalProblem(hops, order=",".join(map(str, order))) for order in pairs]
    return [RetrievalProblem(hops, causal=False), *named, *by_number]


@pytest.mark.parametrize("hops", range(3, 17))
def test_the_schedules_of_the_theory_double(hops: int) -> None:
    """Two stretches are joined where neighbours meet, too: that is no line by line."""
    for problem in orders(hops):
        for one_place in (False, True):
            schedule = pointer_doubling(problem) if one_place else shortest_schedule(problem)
            assert made(*(path.names(problem.roles) for path in schedule), hops=hops).strategy == "doubling"


def test_stretches_that_are_joined_with_layers_to_spare_still_double() -> None:
    problem = RetrievalProblem(7, order="1,3,4,7,6,2,5")
    paths = [path.names(problem.roles) for path in pointer_doubling(problem)]
    assert (3, 1, ">x5", ">x6") in paths
    assert made(*paths, (5, 1, "x0?", ">x5"), hops=7).strategy == "doubling"


@pytest.mark.parametrize("hops", range(1, 9))
def test_the_query_alone_walks_the_chain(hops: int) -> None:
    ties = [(1, 1, f">x{k}", f"x{k - 1}>") for k in range(1, hops + 1)]
    assert made(*ties, *((k + 1, 1, "x0?", f">x{k}") for k in range(1, hops + 1)), hops=hops).strategy == "serial"


@pytest.mark.parametrize("hops", range(3, 10))
def test_the_doubling_circuits_of_the_theory_double(hops: int) -> None:
    witness = build_witness(hops)
    paths = [path.names(witness.problem.roles) for path in witness.circuit]
    assert made(*paths, hops=hops).strategy == "doubling"
