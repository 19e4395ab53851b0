"""Threads of searches beside other work: fewer where they are held up, all again later, and as before in the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from small_models import random_model, some_batch

from hopscope.circuits.evaluate import threads
from hopscope.circuits.evaluate.threads import _PATIENCE, look, yields_cores
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.problem.retrieval import RetrievalProblem


class Clock:
    """Seconds that pass, and seconds that cores spent on this process meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.worked = 0.0
        monkeypatch.setattr(threads.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(threads.time, "process_time", lambda: self.worked)

    def passes(self, seconds: float, cores: float) -> None:
        """As much as a pass of a search sees of it."""
        self.now += seconds
        self.worked += seconds * cores
        look()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture(autouse=True)
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The numbers of threads that were taken; this machine's own stay as they are."""
    numbers = [2]
    monkeypatch.setattr(torch, "get_num_threads", lambda: numbers[-1])
    monkeypatch.setattr(torch, "set_num_threads", numbers.append)
    yield numbers
    assert threads._HERE.watched is None


def test_threads_that_are_held_up_are_given_up_and_tried_again(clock, taken):
    @yields_cores
    def search() -> None:
        clock.passes(0.5, 1.0)
        assert taken == [2], "too early to say"
        clock.passes(0.6, 1.0)
        assert taken == [2, 1]
        clock.passes(_PATIENCE - 2, 1.0)
        assert taken == [2, 1]
        clock.passes(2.1, 1.0)
        assert taken == [2, 1, 2], "the other work may have come to an end"
        clock.passes(1.1, 1.9)
        clock.passes(1.1, 1.6)
        assert taken == [2, 1, 2]

    search()
    assert taken == [2, 1, 2, 2]


def test_patience_counts_from_when_threads_are_given_up(clock, taken):
    """However long all were worth having before."""

    @yields_cores
    def search() -> None:
        for _ in range(40):
            clock.passes(1.1, 1.9)
        clock.passes(1.1, 1.0)
        clock.passes(0.1, 1.0)
        assert taken == [2, 1]

    search()


def test_as_many_are_taken_as_cores_are_there(clock, taken):
    taken.append(8)

    @yields_cores
    def search() -> None:
        for cores in (6.1, 3.9, 2.0, 2.3, 0.4):
            clock.passes(1.1, cores)

    search()
    assert taken[2:] == [4, 2, 1, 8]


def test_one_thread_stays_one(clock, taken):
    taken.append(1)
    yields_cores(lambda: clock.passes(5.0, 0.1))()
    assert taken == [2, 1]


def test_outside_a_search_nothing_is_done(clock, taken):
    clock.passes(5.0, 0.1)
    assert taken == [2]


def test_work_within_such_work_is_the_same_and_what_fails_leaves_all_as_before(clock, taken):
    @yields_cores
    def inner() -> None:
        clock.passes(1.1, 1.0)

    @yields_cores
    def outer() -> None:
        inner()
        assert taken == [2, 1], "the inner one's end is not the outer one's"
        raise ValueError("a search that fails")

    with pytest.raises(ValueError, match="a search that fails"):
        outer()
    assert taken == [2, 1, 2]


def test_every_pass_looks(monkeypatch):
    """A call with many programs is long: seconds before the first look were once seven."""
    seen: list[int] = []
    monkeypatch.setattr(threads, "look", lambda: seen.append(1))
    problem = RetrievalProblem(hops=1)
    evaluator = VectorEvaluator(random_model(problem), problem, some_batch(problem))
    monkeypatch.setattr(type(evaluator), "_positions_at_once", evaluator.where.role.numel())
    evaluator.errors([{}] * 5)
    assert len(seen) == 5
