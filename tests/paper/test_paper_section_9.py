"""Section 9: C12 and C13 judged by histories in which they are false, true, and open; histories read beside runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from known_run import WITNESS, circuit_json, known_run, recipe, witness_shape
from made_results import D_LIKE, emergence, follow, judge_histories, loss, model_d, studied

from hopscope.emergence.history import Emergence
from hopscope.emergence.timing import Order, Plateau
from hopscope.emergence.track import emergence_of_run
from hopscope.errors import InputError
from hopscope.paper.claims import Finding
from hopscope.paper.models import FollowedModel, Learned, ModelStudy, Studied, all_learned_at
from hopscope.paper.section_9 import EmergenceResult, judge, read
from hopscope.records import content_hash
from hopscope.training.metrics import Metrics, MetricsRow
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.run import ModelResult, Result, RunFolder


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
        """It works alone because the others were pruned."""
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


def finished_run(path: Path) -> RunFolder:
    """Layers 1, 2 and 3 of a witness are switched on at steps 200, 300 and 500: x1 comes, then x2 and x3 together."""
    run = known_run(path)
    run.finish(Result(600, 1, (ModelResult(0, 0, run.model_hashes[0], 0.0, (0.0,) * 3, 0.0, 0.0, (0.0,) * 3),)))
    return run


STUDY = ModelStudy("paper", (Setup("d", WITNESS.problem, recipe(), (0,)),), "transformers", "quick")


def followed_at(folder: Path, step: int) -> Emergence:
    """The circuit of a checkpoint, followed."""
    run = RunFolder(folder)
    then = content_hash([run.model_hashes[0], step])
    (folder / "circuits").mkdir(exist_ok=True)
    circuit_json(run, folder / "circuits" / f"step-{step:06d}.json", model=then)
    return emergence_of_run(run, 0, step=step)


class TestWhatIsRead:
    """Beside a run of the witness, whose hops are all learned at step 500."""

    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setattr(Recipe, "architecture", witness_shape)
        run = finished_run(tmp_path / "transformers" / "d")
        circuit_json(run, run.path / "circuit.json")
        emergence_of_run(run, 0)
        return run.path

    def followed(self, folder: Path) -> FollowedModel:
        (followed,) = read(STUDY, folder.parents[1]).followed
        return followed

    def test_both_circuits_are_read(self, folder: Path) -> None:
        assert all_learned_at(RunFolder(folder), 0) == 500
        final, first = Emergence.load(folder / "emergence.json"), followed_at(folder, 500)
        found = self.followed(folder)
        assert (found.final, found.first) == (final, first)
        judged = judge(EmergenceResult(STUDY, (found,)))[1]
        assert judged.verdict == "not reproduced", "x2 and x3 came together"
        assert "losses in order in 0, paths in 0" in judged.observed
        assert "(when all are learned, 6 of 6 paths cross 0.5)" in judged.observed

    def test_a_checkpoint_that_somebody_was_curious_about_did_not_learn_the_task(self, folder: Path) -> None:
        """`hopscope emergence RUN --checkpoint 300`: there x2 and x3 had not been learned."""
        for step in (300, 500):
            learned = followed_at(folder, step)
            assert (self.followed(folder).first is None) == (step == 300)
        replace(learned, circuit={"imposed": 0.5}).save(folder / "emergence" / "step-000300.json")
        assert self.followed(folder).first == learned

    def test_a_history_of_other_paths_is_not_the_circuits(self, folder: Path) -> None:
        """`hopscope circuit RUN --overwrite` found others since."""
        history = Emergence.load(folder / "emergence.json")
        assert self.followed(folder).final == history
        replace(history, paths=history.paths[:2]).save(folder / "emergence.json")
        before = (folder / "emergence.json").read_bytes()
        assert self.followed(folder).final is None
        assert (folder / "emergence.json").read_bytes() == before

    def test_without_a_circuit_at_the_end_the_metrics_say_what_training_came_to(self, folder: Path) -> None:
        first = followed_at(folder, 500)
        history = Emergence.load(folder / "emergence.json")
        (folder / "emergence.json").unlink()
        found = self.followed(folder)
        assert (found.final, found.first, found.training) == (None, first, (history.plateau, 600))

    @pytest.mark.parametrize("runs", [True, False])
    @pytest.mark.parametrize("change", [{"model": "0123456789abcdef"}, {"run": "0123456789abcdef"}, {"number": 1}])
    def test_another_models_history_is_refused_and_kept(self, folder: Path, change: dict[str, Any], runs: bool) -> None:
        """Planted: the same recipe and seed, trained in another precision; with the run, and without its result."""
        path = folder / "emergence.json"
        assert self.followed(folder).final is not None
        if not runs:
            (folder / "result.json").unlink()
        replace(Emergence.load(path), **change).save(path)
        before = path.read_bytes()
        with pytest.raises(InputError, match=r"emergence\.json is of another model; .*untouched"):
            self.followed(folder)
        assert path.read_bytes() == before

    def test_the_circuit_of_a_checkpoint_is_of_the_same_model(self, folder: Path) -> None:
        (folder / "circuits").mkdir()
        circuit_json(RunFolder(folder), folder / "circuits" / "step-000500.json", model="0123456789abcdef")
        with pytest.raises(InputError, match=r"step-000500\.json"):
            self.followed(folder)
