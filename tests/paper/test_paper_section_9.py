"""Section 9: the judging of C12 and C13, by histories in which the claims are false, true, and open."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_results import D_LIKE, emergence, follow, judge_histories, loss, model_d, studied

from hopscope.emergence.timing import Crossing, Order, Plateau
from hopscope.paper.claims import Finding
from hopscope.paper.models import FollowedModel, Learned, Studied
from hopscope.training.metrics import Metrics, MetricsRow

NEVER = Crossing(None, None, None, None)
GIVEN_UP = {"given_up": True}


def unfollowed_model(*learned: int | None, left: int | None = 560) -> FollowedModel:
    """A model that nobody followed, and when its metrics fall below 0.5, hop by hop, and from the plateau."""
    rows = []
    for step in range(20, 1001, 20):
        losses = [0.1 if when is not None and step >= when else 0.75 for when in learned]
        losses[0] = min(losses[0], 0.6) if left is not None and step >= left else losses[0]
        rows.append(MetricsRow(step, 0, sum(losses) / 4, sum(losses) / 4, tuple(losses), tuple(losses)))
    return FollowedModel(model_d("x"), None, None, Metrics.of_rows(rows, (0,), range(1, 5)))


def test_the_papers_own_history_would_be_reproduced() -> None:
    found = judge_histories(*follow())
    assert {finding.verdict for finding in found.values()} == {"reproduced"}
    assert "plateau long enough in 3 of 3, losses in order in 3, paths in 3" in found["C13"].observed
    assert "plateau 70, losses 72, 78, 82, 108" in found["C13"].observed  # steps of 8
    assert found["C12"].scale == "paper: D = 4, 24 layers x 1 head, 3 seeds"


class TestC13:
    def test_a_plateau_counts_from_the_start(self) -> None:
        """Reached at step 100 and left at 279 of 1000: from the start that is a hair too short, and 280 is not."""
        for left, expected in ((279, "not reproduced"), (280, "reproduced"), (None, "not reproduced")):
            plateau = Plateau(0.75, 100, left, (580, 620, 660, 860))
            assert judge_histories(*follow(plateau=plateau))["C13"].verdict == expected

    @pytest.mark.parametrize(
        ("learned", "expected"),
        [((620, 580, 660, 860), "not reproduced"), ((580, 620, 660, None), "not reproduced"),
         ((580, 620, 620, 860), "inconclusive")],
    )  # fmt: skip
    def test_losses_in_order(self, learned: Any, expected: str) -> None:
        assert judge_histories(*follow(plateau=Plateau(0.75, 10, 560, learned)))["C13"].verdict == expected

    @pytest.mark.parametrize(
        ("order", "expected"),
        [
            (Order((580.0, 620.0, 620.0, 860.0), (1.0, 0.0, 1.0)), "not reproduced"),  # two together
            (Order((580.0, 620.0, 660.0, None), (1.0, 1.0, 0.0)), "not reproduced"),
            (Order((580.0, 660.0, 620.0, 860.0), (1.0, 0.1, 1.0)), "not reproduced"),
            (Order((580.0, 620.0, 660.0, 690.0), (1.0, 1.0, 1.0)), "not reproduced"),  # the last is not much later
            (Order((580.0, 620.0, 660.0, 701.0), (1.0, 1.0, 1.0)), "inconclusive"),  # later, and not much
            (Order((580.0, 620.0, 660.0, 739.0), (1.0, 1.0, 1.0)), "inconclusive"),
            (Order((580.0, 620.0, 660.0, 740.0), (1.0, 1.0, 1.0)), "reproduced"),
            (Order((580.0, 620.0, 660.0, 860.0), (1.0, 0.9, 1.0)), "inconclusive"),
            (Order((580.0, 620.0, 660.0, 860.0), (0.95, 0.95, 0.95)), "reproduced"),
        ],
    )
    def test_paths_one_by_one_with_certainty_and_the_last_much_later(self, order: Order, expected: str) -> None:
        assert judge_histories(*follow(order=order))["C13"].verdict == expected

    def test_the_circuit_that_learned_the_task_is_followed_too(self) -> None:
        """A spike rebuilt the circuit: the one at the end comes in order, the one that learned the task did not."""
        together = emergence(order=Order((580.0, 580.0, 580.0, 580.0), (0.0, 0.0, 0.0)))
        assert judge_histories(*follow(first=together))["C13"].verdict == "not reproduced"
        found = judge_histories(*follow(first=None))["C13"]
        assert found.verdict == "inconclusive"
        assert found.reason == "no circuit was followed from where all hops are learned"

    @pytest.mark.parametrize(
        ("unfollowed", "expected"),
        [
            (unfollowed_model(580, 620, 660, 860), "inconclusive"),
            (unfollowed_model(580, 620, 660, None), "not reproduced"),
            (unfollowed_model(580, 660, 620, 860), "not reproduced"),
            (unfollowed_model(240, 620, 660, 860, left=200), "not reproduced"),
            (unfollowed_model(None, None, None, None, left=None), "not reproduced"),
            (FollowedModel(model_d("x"), None, None, None), "inconclusive"),
        ],
    )
    def test_models_without_a_circuit_are_no_less_models(self, unfollowed: FollowedModel, expected: str) -> None:
        """Three of 23 have one, and are as in the paper; length and losses of the others need none."""
        others = [replace(unfollowed, model=replace(unfollowed.model, seed=seed)) for seed in range(20)]
        found = judge_histories(*follow(3), *others)["C13"]
        assert (found.verdict, found.n) == (expected, 23)
        if expected == "inconclusive":
            assert found.reason == "no circuit was followed in 20 models"
        assert ", paths in 3; " in found.observed


class TestC12:
    def one(self, studied_model: Studied) -> Finding:
        return judge_histories(FollowedModel(studied_model, emergence(), None, None))["C12"]

    def test_a_circuit_of_the_heads_that_training_left_shows_nothing(self) -> None:
        """It works alone because the others were taken away."""
        lean = replace(D_LIKE, recipe=replace(D_LIKE.recipe, schedule="decay-when-learned", prune_every=8))
        found = self.one(replace(model_d(), setup=lean))
        assert (found.verdict, found.reason) == ("not run", "heads were pruned while the models trained")

    def test_one_model_is_what_the_paper_has(self) -> None:
        found = self.one(model_d())
        assert (found.verdict, found.n) == ("reproduced", 1)
        assert "0.0310" in found.observed

    @pytest.mark.parametrize(
        ("held_out", "expected"),
        [((0.06, 0.07), "not reproduced"), ((0.045, 0.055), "inconclusive"), (None, "not reproduced")],
    )
    def test_the_models_own_loss(self, held_out: Any, expected: str) -> None:
        assert self.one(model_d(learned=Learned(0.05, 0.05, held_out))).verdict == expected

    def test_a_circuit_that_works_with_own_patterns_alone_does_not_pass(self) -> None:
        bad = loss(0.154)
        assert self.one(model_d(zero=bad, uniform=bad, identity=bad)).verdict == "not reproduced"
        assert self.one(studied(None, "d", D_LIKE)).verdict == "not reproduced", "no circuit at all"


def test_nothing_is_not_run() -> None:
    assert {finding.verdict for finding in judge_histories().values()} == {"not run"}
    assert judge_histories(FollowedModel(model_d(), None, None, None))["C13"].verdict == "not run"
