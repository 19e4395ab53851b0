"""Blind solvers: they see positions of words alone, and beat a guess only where the answer leaks."""

from __future__ import annotations

from collections import Counter

import pytest

from hopscope.benchmark.guessing import FRESH, answer_spread, blind_scores
from hopscope.problem.text.blind import BLIND, look
from hopscope.problem.text.questions import FORMULATIONS, question, questions


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMULATIONS)
def test_blind_solvers_are_at_the_guess(name: str) -> None:
    """Holm over the solvers of a formulation: none is above it at 1%."""
    scores = blind_scores(name)
    assert {score.solver for score in scores} == {*BLIND, "random answer", "remembered answer"}
    assert all(score.asked == 2000 and score.guess == (1 / 16 if name == "relatives" else 1 / 4) for score in scores)
    assert min(score.p for score in scores) > 0.01 / len(scores)
    assert all(score.low <= score.accuracy <= score.high for score in scores)


@pytest.mark.parametrize("name", FORMULATIONS)
def test_answers_are_spread_evenly(name: str) -> None:
    asked = questions(name, count=2000, seed=FRESH)
    spread = answer_spread(asked)
    assert spread.p > 0.002
    assert spread.counts == tuple(Counter(q.answer for q in asked)[a] for a in asked[0].acceptable)
    skewed = [q for q in asked if q.answer != q.acceptable[0] or q.index % 2]
    assert answer_spread(skewed).p < 1e-3


def test_a_leaked_answer_is_found() -> None:
    """At one hop the value on the asked symbol's line is the answer."""
    score = {score.solver: score for score in blind_scores("equations", hops=1, count=300)}
    assert score["value on the same line"].accuracy == 1.0
    assert score["value on the same line"].p < 1e-100


def test_solvers_by_hand() -> None:
    item = question("equations", hops=2)  # c = 1, a = 2, d = 3, b = 0, h = b, f = d, g = a, e = c; f?
    answers = {name: solve(look(item)) for name, solve in BLIND.items()}
    assert answers == {
        "first value": "1",
        "second value": "2",
        "third value": "3",
        "last value": "0",
        "last but one": "3",
        "most frequent value": "1",
        "rarest value": "1",
        "nearest value": "0",
        "value on the same line": "0",
        "value at the same place": "2",
        "first answer in order": "0",
        "last answer in order": "3",
    }
