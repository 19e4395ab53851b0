"""Parts of the search: whether interventions are within a limit, and what a row is said to do."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from planted_models import LAST_OF_TWO, shared_answer

from hopscope.circuits.evaluate.ablations import KEEP, UNIFORM, Ablation, AblationKind, Interventions, one_hot
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.units import Units
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.circuits.search.config import SearchBudget, SearchConfig
from hopscope.circuits.search.gauge import Further, Gauge, clear, mean_and_error
from hopscope.circuits.search.simplify import simplest_patterns
from hopscope.problem.paths import HeadRow
from hopscope.training.data import held_out

WITHOUT: Interventions = {LAST_OF_TWO._replace(head=1).row: UNIFORM}
"""The second of two heads that share the last step."""


@pytest.fixture(scope="module")
def evaluator() -> Evaluator:
    made = shared_answer()
    return VectorEvaluator(made.transformer, made.problem, held_out(made.problem, 32, 0, "circuit search"))


def confirming(evaluator: Evaluator, deciding: int) -> Gauge:
    return Gauge.confirming(evaluator, SearchConfig(SearchBudget(sequences=16, confirming=32, deciding=deciding)))


@pytest.mark.slow
def test_more_sequences_decide_where_only_the_margin_exceeds_the_limit(evaluator: Evaluator) -> None:
    (true,) = evaluator.fresh(8192, 1, "truth").mse([WITHOUT])
    few, many = confirming(evaluator, 32), confirming(evaluator, 4096)
    (score,) = few.scores([WITHOUT])
    between = (true + score) / 2
    assert true < between < score
    assert many.passes(WITHOUT, between)
    assert not few.passes(WITHOUT, between)
    assert not many.passes(WITHOUT, 0.98 * true)


def test_candidate_near_a_measured_one_is_not_measured(evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch) -> None:
    """One measurement on more sequences serves for all that is near; what is far is measured itself."""
    gauge = confirming(evaluator, 4096)
    assert gauge.further is not None
    assert gauge.hopeful(WITHOUT, [0.0], 0.999 * gauge.score(WITHOUT)) == [0]
    mean, error = mean_and_error(gauge.further.losses)
    score = mean + gauge.margin * error
    measured: list[Interventions] = []
    measure = gauge.further.measured
    monkeypatch.setattr(
        gauge.further, "measured", lambda candidate, limit: measured.append(candidate) or measure(candidate, limit)
    )
    near: Interventions = {**WITHOUT, LAST_OF_TWO._replace(head=1, query=3).row: UNIFORM}
    assert gauge.passes(near, 1.01 * score)
    assert not gauge.passes(near, 0.99 * score)
    assert measured == []
    far: Interventions = {LAST_OF_TWO.row: UNIFORM}
    (loss,) = evaluator.mse([far])
    gauge.passes(far, loss)
    assert measured == [far]


@pytest.mark.slow
def test_sequences_are_added_until_the_side_of_the_limit_is_clear(evaluator: Evaluator) -> None:
    """Each time as many again; what was asked is not asked again, and in the end it is the mean of all."""
    further = Further(evaluator, 2048, margin=3.0)
    mean, error = further.measured(WITHOUT)
    assert len(further.losses) == 2048
    fresh = evaluator.fresh(2048, 0, "circuit search, in doubt").errors([WITHOUT])[0].double().mean(dim=1)
    assert (mean, error) == pytest.approx((float(fresh.mean()), float(fresh.std()) / 2048**0.5), rel=1e-5)
    asked = {}
    for limit in (0.3 * mean, mean + 2 * error, mean + 4 * error, mean + 5 * error, 3 * mean):
        further = Further(evaluator, 2048, margin=3.0)
        found, doubt = further.measured(WITHOUT, limit)
        assert (found + 3 * doubt <= limit) == (mean + 3 * error <= limit)
        asked[limit] = len(further.losses)
        assert further.measured(WITHOUT) == (mean, error)
        assert len(further.losses) == 2048
    first, close, *_, last = asked.values()
    assert (first, close, last) == (256, 2048, 256)
    assert {*asked.values()} & {512, 1024}


def test_a_task_with_few_sequences_is_measured_once(evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch) -> None:
    few = evaluator.fresh(300, 0, "few")
    monkeypatch.setattr(VectorEvaluator, "fresh", lambda self, sequences, seed, purpose: few)
    further = Further(evaluator, 512, margin=3.0)
    assert further.measured(WITHOUT) == further.measured(WITHOUT)
    assert (len(further.losses), further.final) == (300, True)


def test_open_losses_are_not_clear() -> None:
    """At a quarter of the sequences the mean may still move by 1.73 times what its error will be."""
    losses = torch.linspace(-1.0, 1.0, 512).double()
    error = mean_and_error(losses)[1]
    at_the_end, still_open = error / 2, error * 0.75**0.5
    beyond = 3 * at_the_end - 3 * still_open
    for limit, known in ((3.01 * error, True), (2.99 * error, False), (0.99 * beyond, False), (1.01 * beyond, True)):
        assert clear(losses, 2048, limit, 3.0) == known, limit
    assert clear(losses, 512, 2.99 * error, 3.0)  # all are asked


ONE, TWO = HeadRow(0, 0, 1), HeadRow(1, 0, 2)
BOTH = Ablation(AblationKind.MIXTURE, (1, 2), (0.7, 0.3))


class Planted(Gauge):
    """Two rows. Role 1 is enough for the second if the first is imposed, or else wrong in a quarter of sequences."""

    def __init__(self) -> None:
        self.max_loss = 0.05
        self.evaluator: Any = SimpleNamespace(
            rows=(ONE, TWO), own=torch.zeros(4), depart_from=lambda interventions: None,
            mse=lambda candidates: [self.score(candidate) for candidate in candidates],
        )  # fmt: skip

    def limit(self, share: float = 1.0) -> float:
        return 0.05

    def score(self, interventions: Interventions) -> float:
        if UNIFORM in (interventions[ONE], interventions[TWO]):
            return 1.0
        return 0.25 if interventions[TWO] == one_hot(1) and interventions[ONE] == KEEP else 0.0

    def costs(
        self, interventions: Interventions, near: Sequence[Interventions], few: Evaluator | None = None
    ) -> tuple[list[float], list[float]]:
        return [self.score(neighbour) - self.score(interventions) for neighbour in near], []


class Known(Units):
    """Two rows, how much the second attends to role 1, and what is thought of either."""

    def __init__(self, weight: float) -> None:
        vars(self).update(rows=(ONE, TWO), base={ONE: KEEP, TWO: KEEP}, weight=weight)

    def hypotheses(self, row: HeadRow) -> list[Ablation]:
        return [one_hot(0), KEEP] if row == ONE else [one_hot(1), one_hot(0), BOTH, KEEP]

    def weights(self, row: HeadRow) -> list[float]:
        return [1.0 - self.weight, self.weight, 0.0]  # type: ignore[attr-defined]


def found(weight: float) -> Interventions:
    """The forms of the two rows."""
    return simplest_patterns(Planted(), Known(weight))


def test_pattern_wrong_among_own_patterns_is_not_imposed() -> None:
    """The first row is imposed before the second is tried, so that role 1 is enough there, and wrong."""
    assert found(weight=0.7) == {ONE: one_hot(0), TWO: BOTH}


def test_row_is_not_given_a_key_that_it_hardly_attends_to() -> None:
    """Only where a row attends mostly to no role, another single one may be what it does."""
    assert found(weight=0.4) == {ONE: one_hot(0), TWO: one_hot(0)}
    assert found(weight=0.51) == {ONE: one_hot(0), TWO: BOTH}


@pytest.mark.parametrize("most", [4.0, 6.0])
def test_cost_of_an_imposed_pattern_has_a_limit(most: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter is five times the threshold: accepted where it may cost so much."""
    monkeypatch.setattr("hopscope.circuits.search.simplify.AMONG_OTHERS", most)
    assert found(weight=0.7)[TWO] == (one_hot(1) if most == 6.0 else BOTH)
