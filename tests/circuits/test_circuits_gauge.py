"""Whether a program is within a limit: what few sequences leave open is decided on more, and only that."""

from __future__ import annotations

import pytest
from planted_models import LAST_OF_TWO, shared_answer

from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.form import UNIFORM
from hopscope.circuits.hypotheses import Rows
from hopscope.circuits.search.budget import Budget
from hopscope.circuits.search.gauge import Gauge
from hopscope.circuits.vectors import VectorEvaluator
from hopscope.training.data import held_out

WITHOUT: Rows = {LAST_OF_TWO._replace(head=1).row: UNIFORM}
"""The second of two heads that share the last step."""


@pytest.fixture(scope="module")
def evaluator() -> Evaluator:
    made = shared_answer()
    return VectorEvaluator(made.transformer, made.problem, held_out(made.problem, 32, 0, "circuit search"))


def confirming(evaluator: Evaluator, deciding: int) -> Gauge:
    return Gauge.confirming(evaluator, Budget(sequences=16, confirming=32, deciding=deciding))


def test_what_the_doubt_alone_puts_above_a_limit_is_decided_on_more(evaluator: Evaluator) -> None:
    (true,) = evaluator.fresh(8192, 1, "truth").mse([WITHOUT])
    few, many = confirming(evaluator, 32), confirming(evaluator, 4096)
    (score,) = few.scores([WITHOUT])
    between = (true + score) / 2
    assert true < between < score
    assert many.passes(WITHOUT, between)
    assert not few.passes(WITHOUT, between)
    assert not many.passes(WITHOUT, 0.98 * true)


def test_what_is_clear_is_not_measured_again(evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch) -> None:
    gauge = confirming(evaluator, 64)
    (score,) = gauge.scores([WITHOUT])
    assert gauge._more is not None
    monkeypatch.setattr(gauge._more, "errors", lambda programs: pytest.fail("it was clear"))
    assert gauge.passes(WITHOUT, 1.01 * score)
    assert not gauge.passes(WITHOUT, 0.2 * score)


def test_what_little_differs_from_what_is_known_is_not_measured_again(
    evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One measurement on more sequences serves for all that is near; what is far is measured itself."""
    gauge, scanning = confirming(evaluator, 4096), Gauge.scanning(evaluator, Budget(sequences=16, confirming=32))
    score = gauge.sharp(WITHOUT)
    assert score < gauge.scores([WITHOUT])[0]
    assert scanning.sharp(WITHOUT) == scanning.scores([WITHOUT])[0]
    assert gauge._more is not None
    measured: list[Rows] = []
    errors = gauge._more.errors
    monkeypatch.setattr(gauge._more, "errors", lambda programs: measured.extend(programs) or errors(programs))
    near: Rows = {**WITHOUT, LAST_OF_TWO._replace(head=1, query=3).row: UNIFORM}
    assert gauge.passes(near, 1.01 * score)
    assert not gauge.passes(near, 0.99 * score)
    assert measured == []
    far: Rows = {LAST_OF_TWO.row: UNIFORM}
    (loss,) = evaluator.mse([far])
    gauge.passes(far, loss)
    assert measured == [far]
