"""Section 8: which models count for a claim, which for none, and which leave it open."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_results import ALL, abc, imposed, judge_circuits, loss, searched, studied

GIVEN_UP = {"given_up": True}


def test_models_that_lost_heads_in_training_say_nothing_of_how_few_matter() -> None:
    """They meet C7, C10 and C11 by construction, and fail C9; beside models that kept theirs they do not count."""
    setup = abc()[0].setup
    lean = replace(setup, recipe=replace(setup.recipe, schedule="decay-when-learned", prune_every=8))
    found = judge_circuits(*[replace(model, setup=lean) for model in abc()])
    assert {claim: found[claim].verdict for claim in ALL} == {
        "C7": "not run", "C8": "reproduced", "C9": "not run", "C10": "not run", "C11": "not run"
    }  # fmt: skip
    assert found["C10"].reason == "heads were pruned while the models trained"
    one, *others = abc()
    found = judge_circuits(replace(one, setup=lean), *others)
    assert {found[claim].n for claim in ("C7", "C10", "C11")} == {2}
    assert "too few models with a circuit: 2" in found["C9"].reason
    assert found["C8"].n == 3


def test_models_that_did_not_learn_are_left_out_and_told() -> None:
    found = judge_circuits(*abc(), studied(None, "d", full=0.6))
    assert found["C10"].verdict == "reproduced"
    assert "1 of 4 models had not learned the task" in found["C10"].observed
    nobody = judge_circuits(studied(None, "a", full=0.6))
    assert {nobody[claim].verdict for claim in ALL} == {"not run"}
    assert nobody["C7"].reason == "no model had learned the task"


def test_a_model_that_solves_and_has_no_circuit_speaks_against_c10() -> None:
    found = judge_circuits(*abc(), studied(None, "d"))
    assert found["C10"].verdict == "not reproduced"
    assert "no circuit in 1 model" in found["C10"].observed
    assert found["C7"].verdict == found["C8"].verdict == "inconclusive"


NOBODY_KNOWS = {
    "given up": (searched(studied(None, "d"), **GIVEN_UP), "1 model whose search was given up"),
    "another bar": (searched(studied(imposed(), "d"), max_loss=0.4), "1 model searched at another threshold than 0.05"),
    "none at another bar": (
        searched(studied(None, "d"), max_loss=0.01),
        "1 model searched at another threshold than 0.05",
    ),
    "unsearched": (replace(studied(None, "d"), circuit=None), "1 model whose circuit was not searched for"),
}
"""Models that solve the task, and why the record of their circuit decides nothing."""


class TestModelsOfWhichNobodyKnows:
    """They are neither left out nor held against a claim."""

    @pytest.mark.parametrize("how", NOBODY_KNOWS)
    def test_they_leave_a_claim_open(self, how: str) -> None:
        unknown, reason = NOBODY_KNOWS[how]
        found = judge_circuits(*abc(), unknown)
        for claim in ("C7", "C8", "C10"):
            assert (found[claim].verdict, found[claim].n, found[claim].reason) == ("inconclusive", 4, reason)
            assert reason in found[claim].observed
        assert found["C9"].verdict == "reproduced", "which compares circuits"
        bad = loss(0.2)
        failing = judge_circuits(*abc(zero=bad, uniform=bad, identity=bad), unknown)["C10"]
        assert failing.verdict == "not reproduced", "others fail"

    def test_they_count_for_neither_bound_of_c11(self) -> None:
        good = [studied(imposed(), f"m{number}") for number in range(10)]
        more = [studied(imposed(), f"n{number}") for number in range(10)]
        bad = [studied(imposed(without=0.04), f"b{number}") for number in range(10)]
        unknown = [searched(studied(None, f"g{number}"), **GIVEN_UP) for number in range(10)]
        for models, expected in (
            ((*good, *more, *unknown[:1]), "reproduced"),
            ((*good, *unknown[:1]), "inconclusive"),
            ((*good, *unknown), "inconclusive"),
            ((*bad, *unknown[:1]), "not reproduced"),
            ((*bad, *unknown), "not reproduced"),
            ((*bad[:3], *good[:7], *unknown), "inconclusive"),
        ):
            found = judge_circuits(*models)["C11"]
            assert (found.verdict, found.n) == (expected, len(models))
        found = judge_circuits(*good[:9], *unknown)["C11"]
        assert (found.verdict, found.reason) == ("inconclusive", "too few models: 9, and the rule asks for 10")
