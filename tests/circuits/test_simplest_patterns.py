"""What a row is said to do: also right where the other rows make their own patterns."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from hopscope.circuits.evaluate.ablations import KEEP, UNIFORM, Ablation, AblationKind, Interventions, one_hot
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.hypotheses import Hypotheses, Units
from hopscope.circuits.search.gauge import Gauge
from hopscope.circuits.search.simplify import simplest_patterns
from hopscope.problem.paths import HeadRow

ONE, TWO = HeadRow(0, 0, 1), HeadRow(1, 0, 2)
BOTH = Ablation(AblationKind.MIXTURE, (1, 2), (0.7, 0.3))


class Planted(Gauge):
    """Two rows: the second reads what the first wrote, or, where the first did something else by itself, itself.

    Imposed together, role 1 is enough for the second. With the first as it is, that is wrong in a quarter of
    all sequences; the mixture is not, nor is role 0.
    """

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


class Known(Hypotheses):
    """How much the second row attends to role 1, and what is thought of either."""

    def __init__(self, weight: float) -> None:
        self._weight = weight

    def of(self, row: HeadRow) -> list[Ablation]:
        return [one_hot(0), KEEP] if row == ONE else [one_hot(1), one_hot(0), BOTH, KEEP]

    def weights(self, row: HeadRow) -> list[float]:
        return [1.0 - self._weight, self._weight, 0.0]


def found(weight: float) -> Interventions:
    """The forms of the two rows."""
    return simplest_patterns(Planted(), Units(Known(weight), (ONE, TWO), {ONE: KEEP, TWO: KEEP}))


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
