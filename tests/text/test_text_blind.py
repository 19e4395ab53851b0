"""Blind solvers: what they see is what stands there, and they beat the guess nowhere but where they should."""

from __future__ import annotations

from collections import Counter

import pytest

from hopscope.benchmark.guessing import FRESH, answer_spread, blind_scores
from hopscope.errors import InputError
from hopscope.problem.text.blind import BLIND, look
from hopscope.problem.text.chains import KINGDOMS
from hopscope.problem.text.formulation import Extensions
from hopscope.problem.text.questions import FORMULATIONS, question, questions

FIXED = Extensions(links="fixed")


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


def test_a_solver_that_sees_the_answer_is_found() -> None:
    """At one hop the value on the asked symbol's line is the answer; with fixed links memory is."""
    score = {score.solver: score for score in blind_scores("equations", hops=1, count=300)}
    assert score["value on the same line"].accuracy == 1.0
    assert score["value on the same line"].p < 1e-100
    fixed = {score.solver: score for score in blind_scores("kingdoms", count=300, extensions=FIXED)}
    assert fixed["remembered answer"].accuracy == 1.0
    assert fixed["value at the same place"].p > 1e-4


def test_solvers_by_hand() -> None:
    item = question("equations", hops=2)  # c = 1, a = 2, d = 3, b = 0, h = b, f = d, g = a, e = c; f?
    said = {name: solve(look(item)) for name, solve in BLIND.items()}
    assert said == {
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


def test_fixed_links_shuffle_lines_alone() -> None:
    drawn, fixed = questions("kingdoms", count=300), questions("kingdoms", count=300, extensions=FIXED)
    pairs = {frozenset(q.prompt.split("\n")[:-1]) for q in fixed}
    assert len(pairs) == 1
    assert len({q.prompt for q in fixed}) == 300
    facts = next(iter(pairs))
    assert {"Alice lives in Novaria.", "Lamb contains Zephyrium.", "Zephyrium causes Chronogy."} <= facts
    assert all(
        dict(zip(KINGDOMS[5], KINGDOMS[0], strict=True))[q.prompt.split(" ")[-8].rstrip("?")] == q.answer for q in fixed
    )
    assert [q.latent.order for q in drawn] == [q.latent.order for q in fixed]
    assert len({frozenset(q.prompt.split("\n")[:-1]) for q in drawn}) == 300
    with pytest.raises(InputError, match="links does not apply to equations"):
        question("equations", extensions=FIXED)
    with pytest.raises(InputError, match="would give fixed links away"):
        Extensions(links="fixed", shots=1)
