"""Section 9: what is read of a run and beside it is of that run's model, at its end and when all was learned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from known_run import WITNESS, circuit_json, known_run, recipe, witness_shape

from hopscope.emergence.history import Emergence
from hopscope.emergence.track import emergence_of_run
from hopscope.errors import InputError
from hopscope.paper.models import FollowedModel, ModelStudy, all_learned_at
from hopscope.paper.section_9 import EmergenceResult, judge, read
from hopscope.records import content_hash
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.run import ModelResult, Result, RunFolder


def finished_run(path: Path) -> RunFolder:
    """Layers 1, 2 and 3 of a witness are switched on at steps 200, 300 and 500: x1 comes, then x2 and x3 together."""
    run = known_run(path)
    run.finish(Result(600, 1, (ModelResult(0, 0, run.model_hashes[0], 0.0, (0.0,) * 3, 0.0, 0.0, (0.0,) * 3),)))
    return run


def test_both_circuits_of_a_run_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recipe, "architecture", witness_shape)
    run = finished_run(tmp_path / "transformers" / "d")
    assert all_learned_at(run, 0) == 500
    (run.path / "circuits").mkdir()
    circuit_json(run, run.path / "circuit.json")
    then = content_hash([run.model_hashes[0], 500])
    circuit_json(run, run.path / "circuits" / "step-000500.json", model=then)
    final, first = emergence_of_run(run, 0), emergence_of_run(run, 0, step=500)
    assert (run.path / "emergence" / "step-000500.json").exists()
    study = ModelStudy("paper", (Setup("d", WITNESS.problem, recipe(), (0,)),), "transformers", "quick")
    (followed,) = read(study, tmp_path).followed
    assert (followed.final, followed.first) == (final, first)
    found = judge(EmergenceResult(study, (followed,)))[1]
    assert found.verdict == "not reproduced", "x2 and x3 came together"
    assert "losses in order in 0, paths in 0" in found.observed
    assert "(when all are learned, 6 of 6 paths cross 0.5)" in found.observed


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
        study = ModelStudy("paper", (Setup("d", WITNESS.problem, recipe(), (0,)),), "transformers", "quick")
        (followed,) = read(study, folder.parents[1]).followed
        return followed

    def test_a_checkpoint_that_somebody_was_curious_about_did_not_learn_the_task(self, folder: Path) -> None:
        """`hopscope emergence RUN --checkpoint 300`: there x2 and x3 had not been learned."""
        (folder / "circuits").mkdir()
        for step in (300, 500):
            then = content_hash([RunFolder(folder).model_hashes[0], step])
            circuit_json(RunFolder(folder), folder / "circuits" / f"step-{step:06d}.json", model=then)
            emergence_of_run(RunFolder(folder), 0, step=step)
            assert (self.followed(folder).first is None) == (step == 300)
        learned = Emergence.load(folder / "emergence" / "step-000500.json")
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
        run = RunFolder(folder)
        (folder / "circuits").mkdir()
        then = content_hash([run.model_hashes[0], 500])
        circuit_json(run, folder / "circuits" / "step-000500.json", model=then)
        first = emergence_of_run(run, 0, step=500)
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
