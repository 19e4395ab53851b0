"""Section 9: the judging of C12 and C13, by histories in which the claims are false, true, and open."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from known_run import WITNESS, circuit_json, known_run, recipe, witness_shape
from report_data import D_LIKE, SERIAL, loss, strict, studied

from hopscope.circuits.record import Circuit
from hopscope.emergence.crossing import Crossing
from hopscope.emergence.history import Emergence, PathHistory
from hopscope.emergence.of_run import emergence_of_run
from hopscope.emergence.order import Order
from hopscope.emergence.plateau import Plateau
from hopscope.paper.claims import Finding
from hopscope.paper.models import Learned, Studied
from hopscope.paper.section_9 import EmergenceResult, EmergenceStudy, FollowedModel, all_learned_at, judge, read
from hopscope.records import content_hash
from hopscope.training.recipe import Recipe
from hopscope.training.setup import Setup

NEVER = Crossing(None, None, None, None)


def emergence(**changes: Any) -> Emergence:
    """As the paper tells it: 56% of the run on the plateau, then x1, x2, x3, and x4 much later."""
    path = PathHistory(
        1, 1, ">x1", "x0>", 1, (0.1, 0.9), (0.0, 1.0), (0.0, 0.6), ((0.0, 0.0), (0.5, 0.7)),
        Crossing(500.0, 490.0, 510.0, (0, 1000)),
    )  # fmt: skip
    base = Emergence(
        run="r", model="m", number=0, seed=0, hops=4, chains=4, layers=24, heads=1, total_steps=1000, steps_per_epoch=8,
        sequences=32, data_seed=0, ablation="uniform", steps=(0, 1000), losses=(0.75, 0.03),
        partial_losses=((0.75,) * 4, (0.02,) * 4), paths=(path, path), learned=(path.crossing,) * 4,
        order=Order((580.0, 620.0, 660.0, 860.0), (1.0, 0.99, 1.0)),
        plateau=Plateau(0.75, 10, 560, (580, 620, 660, 860)), measures=(), circuit={"imposed": 0.045}, troubles=(),
    )  # fmt: skip
    return replace(base, **changes)


def model(name: str = "d", learned: Learned | None = None, **changes: Any) -> Studied:
    return studied(strict(SERIAL, **changes), name, D_LIKE, learned or Learned(0.031, 0.03, (0.029, 0.033)))


def judged(*followed: FollowedModel, scale: str = "paper") -> dict[str, Finding]:
    study = EmergenceStudy(scale, (D_LIKE,), "transformers", "quick")
    return {finding.claim: finding for finding in judge(EmergenceResult(study, followed))}


AS_TOLD = emergence()


def follow(count: int = 3, first: Emergence | None = AS_TOLD, **changes: Any) -> list[FollowedModel]:
    return [FollowedModel(model(f"d{number}"), emergence(**changes), first, None, True) for number in range(count)]


def test_the_papers_own_history_would_be_reproduced() -> None:
    found = judged(*follow())
    assert {finding.verdict for finding in found.values()} == {"reproduced"}
    assert "plateau long enough in 3 of 3, losses in order in 3, paths in 3" in found["C13"].ours
    assert "plateau 70, losses 72, 78, 82, 108" in found["C13"].ours  # steps of 8
    assert found["C12"].scale == "paper: D = 4, 24 layers x 1 head, 3 seeds"


class TestC13:
    def test_two_models_are_too_few(self) -> None:
        found = judged(*follow(2))["C13"]
        assert (found.verdict, found.reason) == ("inconclusive", "too few models: 2, and the rule asks for 3")

    def test_a_plateau_counts_from_the_start(self) -> None:
        """Reached at step 100 and left at 279 of 1000: from the start that is a hair too short, and 280 is not."""
        for left, expected in ((279, "not reproduced"), (280, "reproduced"), (None, "not reproduced")):
            plateau = Plateau(0.75, 100, left, (580, 620, 660, 860))
            assert judged(*follow(plateau=plateau))["C13"].verdict == expected

    @pytest.mark.parametrize(
        ("learned", "expected"),
        [((620, 580, 660, 860), "not reproduced"), ((580, 620, 660, None), "not reproduced"),
         ((580, 620, 620, 860), "inconclusive")],
    )  # fmt: skip
    def test_losses_in_order(self, learned: Any, expected: str) -> None:
        assert judged(*follow(plateau=Plateau(0.75, 10, 560, learned)))["C13"].verdict == expected

    def test_a_path_that_never_crosses_fails(self) -> None:
        paths = emergence().paths
        found = judged(*follow(paths=(paths[0], replace(paths[1], crossing=NEVER))))["C13"]
        assert found.verdict == "not reproduced"
        assert "1 of 2 paths cross 0.5" in found.ours

    @pytest.mark.parametrize(
        ("order", "expected"),
        [
            (Order((580.0, 620.0, 620.0, 860.0), (1.0, 0.0, 1.0)), "not reproduced"),  # two together
            (Order((580.0, 620.0, 660.0, None), (1.0, 1.0, 0.0)), "not reproduced"),
            (Order((580.0, 660.0, 620.0, 860.0), (1.0, 0.1, 1.0)), "not reproduced"),
            (Order((580.0, 620.0, 660.0, 690.0), (1.0, 1.0, 1.0)), "not reproduced"),  # the last is not much later
            (Order((580.0, 620.0, 660.0, 860.0), (1.0, 0.9, 1.0)), "inconclusive"),
            (Order((580.0, 620.0, 660.0, 860.0), (0.95, 0.95, 0.95)), "reproduced"),
        ],
    )
    def test_paths_one_by_one_with_certainty_and_the_last_much_later(self, order: Order, expected: str) -> None:
        assert judged(*follow(order=order))["C13"].verdict == expected

    def test_the_circuit_that_learned_the_task_is_followed_too(self) -> None:
        """A spike rebuilt the circuit: the one at the end comes in order, the one that learned the task did not."""
        together = emergence(order=Order((580.0, 580.0, 580.0, 580.0), (0.0, 0.0, 0.0)))
        assert judged(*follow(first=together))["C13"].verdict == "not reproduced"
        found = judged(*follow(first=None))["C13"]
        assert found.verdict == "inconclusive"
        assert found.reason == "no circuit was followed from where all hops are learned"

    @pytest.mark.parametrize("which", ["final", "first"])
    def test_what_rests_on_a_circuit_that_is_not_certified_decides_nothing(self, which: str) -> None:
        """Paths that are not the model's came together, and would have refuted it; or in order, and have shown it."""
        together = emergence(order=Order((580.0, 580.0, 580.0, 580.0), (0.0, 0.0, 0.0)))
        for history in (AS_TOLD, together):
            one = replace(follow(1)[0], **{which: history})
            if which == "final":
                doubtful = replace(one, model=studied(strict(SERIAL), "d", D_LIKE, certified=("strict",)))
            else:
                doubtful = replace(one, first_certified=False)
            found = judged(*follow(3), doubtful)["C13"]
            assert found.verdict == "inconclusive"
            assert found.reason == "1 model with a circuit that is not certified"
        late = replace(doubtful, final=emergence(plateau=Plateau(0.75, 10, 200, (580, 620, 660, 860))))
        assert judged(*follow(3), late)["C13"].verdict == "not reproduced", "a plateau rests on no circuit"

    def test_one_model_out_of_order_refutes(self) -> None:
        bad = follow(1, order=Order((580.0, 580.0, 660.0, 860.0), (0.0, 1.0, 1.0)))
        assert judged(*follow(5), *bad)["C13"].verdict == "not reproduced"


class TestC12:
    def one(self, studied_model: Studied) -> Finding:
        return judged(FollowedModel(studied_model, emergence(), None, None))["C12"]

    def test_one_model_is_what_the_paper_has(self) -> None:
        found = self.one(model())
        assert (found.verdict, found.n) == ("reproduced", 1)
        assert "0.0310" in found.ours

    @pytest.mark.parametrize(
        ("held_out", "expected"),
        [((0.06, 0.07), "not reproduced"), ((0.045, 0.055), "inconclusive"), (None, "not reproduced")],
    )
    def test_the_models_own_loss(self, held_out: Any, expected: str) -> None:
        assert self.one(model(learned=Learned(0.05, 0.05, held_out))).verdict == expected

    def test_a_lenient_reading_does_not_pass(self) -> None:
        bad = loss(0.154)
        assert self.one(model(zero=bad, uniform=bad, identity=bad)).verdict == "not reproduced"
        assert self.one(studied(None, "d", D_LIKE)).verdict == "not reproduced", "no circuit at all"
        unread = studied(None, "d", D_LIKE, Learned(0.01, 0.01, (0.009, 0.011)), found=True)
        found = self.one(unread)
        assert (found.verdict, found.reason) == ("not run", "no record has a strict reading")

    def test_a_model_of_another_size_says_nothing(self) -> None:
        small = replace(D_LIKE, recipe=replace(D_LIKE.recipe, layers=4))
        assert self.one(replace(model(), setup=small)).verdict == "not run"


def test_nothing_is_not_run() -> None:
    assert {finding.verdict for finding in judged().values()} == {"not run"}
    assert judged(FollowedModel(model(), None, None, None))["C13"].verdict == "not run"


def test_both_circuits_of_a_run_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers 1, 2 and 3 of a witness are switched on at steps 200, 300 and 500: x1 comes, then x2 and x3 together."""
    monkeypatch.setattr(Recipe, "architecture", witness_shape)
    run = known_run(tmp_path / "transformers" / "d")
    assert all_learned_at(run, 0) == 500
    (run.path / "circuits").mkdir()
    circuit_json(run, run.path / "circuit.json")
    then = content_hash([run.model_hashes[0], 500])
    circuit_json(run, run.path / "circuits" / "step-000500.json", model=then)
    final, first = emergence_of_run(run, 0), emergence_of_run(run, 0, step=500)
    assert (run.path / "emergence" / "step-000500.json").exists()
    study = EmergenceStudy("paper", (Setup("d", WITNESS.problem, recipe(), (0,)),), "transformers", "quick")
    (followed,) = read(study, tmp_path).followed
    assert (followed.final, followed.first) == (final, first)
    assert (followed.final_certified, followed.first_certified) == (False, False), "these records have no certificate"
    found = judge(EmergenceResult(study, (followed,)))[1]
    assert (found.verdict, found.reason) == ("inconclusive", "1 model with a circuit that is not certified")
    assert "losses in order in 0, paths in 0" in found.ours
    assert "(when all are learned, 6 of 6 paths cross 0.5)" in found.ours
    monkeypatch.setattr(Circuit, "certified", property(lambda circuit: ("natural",) if circuit.model == then else ()))
    (followed,) = read(study, tmp_path).followed
    assert (followed.final_certified, followed.first_certified) == (False, True)
    assert judge(EmergenceResult(study, (followed,)))[1].verdict == "not reproduced"
