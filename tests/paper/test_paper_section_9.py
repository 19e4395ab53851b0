"""Section 9: C12, C13 and C16 to C19 by histories in which they are false and true; histories read beside runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from known_run import WITNESS, circuit_json, known_run, recipe, witness_shape
from made_results import D_LIKE, answering, emergence, follow, judge_histories, loss, model_d, studied

from hopscope.emergence.history import Emergence
from hopscope.emergence.timing import Order, Plateau
from hopscope.emergence.track import emergence_of_run
from hopscope.errors import InputError
from hopscope.paper.claims import Finding
from hopscope.paper.models import Learned, ModelStudy, Studied, StudiedModels, read_models
from hopscope.paper.recipes import D
from hopscope.paper.section_9 import judge
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.run import ModelResult, Result, RunFolder


def as_d(**changes: Any) -> dict[str, Finding]:
    """What is found of transformer D with such a history."""
    return judge_histories(replace(model_d(), setup=D, emergence=emergence(**changes)))


def test_the_papers_own_history_would_hold() -> None:
    found = as_d(**ABRUPT)
    assert {claim: found[claim].as_the_paper for claim in found if claim != "C18"} == dict.fromkeys(
        ("C12", "C13", "C16", "C17", "C19"), "yes"
    )
    assert found["C13"].numbers.startswith("epochs 72, 78, 82, 108")  # steps of 8
    assert (
        found["C12"].numbers == "validation MSE 0.0310; circuit alone 0.010 (zero), 0.020 (uniform), 0.030 (identity)"
    )
    assert {row.as_the_paper for row in judge_histories(*follow(3, **ABRUPT)).values()} == {"not run"}, "others' shape"


ABRUPT: dict[str, Any] = {
    "steps": (0, 400, 500, 1000),
    "partial_losses": ((0.75,) * 4, (0.74,) * 4, (0.02,) * 4, (0.02,) * 4),
}


class TestHistories:
    @pytest.mark.parametrize(
        ("order", "one_by_one", "much_later"),
        [
            ((580.0, 620.0, 660.0, 740.0), True, True),
            ((580.0, 620.0, 660.0, 739.0), True, False),
            ((580.0, 620.0, 620.0, 860.0), False, True),
            ((580.0, 620.0, 660.0, None), False, False),
            ((580.0, 660.0, 620.0, 860.0), False, True),
        ],
    )
    def test_one_by_one_and_the_last_much_later(self, order: Any, one_by_one: bool, much_later: bool) -> None:
        found = judge_histories(*follow(1, order=Order(order)))
        assert (found["C13"].share, found["C19"].share) == ((int(one_by_one), 1), (int(much_later), 1))

    def test_a_plateau_counts_from_the_start(self) -> None:
        """Reached at step 100 and left at 279 of 1000: from the start that is a hair too short, and 280 is not."""
        for left, met in ((279, 0), (280, 1), (None, 0)):
            plateau = Plateau(0.75, 100, left, (580, 620, 660, 860))
            assert judge_histories(*follow(1, plateau=plateau))["C16"].share == (met, 1)

    @pytest.mark.parametrize(("end", "met"), [(500, 1), (520, 0)])
    def test_abrupt_is_within_a_quarter_of_the_steps_before(self, end: int, met: int) -> None:
        """From 90% to 10% of 0.75 between step 400 and the end, in a line; then it never falls."""
        losses = ((0.75,) * 4, (0.675,) * 4, (0.075,) * 4, (0.02,) * 4)
        history = {"steps": (0, 400, end, 1000), "partial_losses": tuple((row[0] - 1e-9, *row[1:]) for row in losses)}
        assert judge_histories(*follow(1, **history))["C17"].share == (met, 1)
        flat = {"steps": (0, 1000), "partial_losses": ((0.75,) * 4,) * 2}
        assert judge_histories(*follow(1, **flat))["C17"].spread.endswith("never")

    def test_models_without_a_history_are_in_no_share_of_what_it_tells(self, monkeypatch: pytest.MonkeyPatch) -> None:
        known = follow(1)[0]
        monkeypatch.setattr(Studied, "training", known.training)
        found = judge_histories(known, model_d("x"))
        assert [found[claim].share for claim in ("C13", "C16", "C17", "C19")] == [(1, 1), (2, 2), (0, 1), (1, 1)]


class TestC12:
    def one(self, studied_model: Studied) -> Finding:
        return judge_histories(replace(studied_model, emergence=emergence()))["C12"]

    def test_a_circuit_of_the_heads_that_training_left_shows_nothing(self) -> None:
        """It works alone because the others were pruned."""
        lean = replace(D_LIKE, recipe=replace(D_LIKE.recipe, schedule="decay-when-learned", prune_every=8))
        assert not self.one(replace(model_d(), setup=lean)).known

    @pytest.mark.parametrize(
        ("model", "met"),
        [
            (model_d(), 1),
            (model_d(learned=Learned(0.06, 0.01, (0.05, 0.07))), 0),
            (model_d(learned=Learned(None, None, None)), 0),
            (model_d(zero=loss(0.154)), 0),
            (studied(None, "d", D_LIKE), 0),
        ],
    )
    def test_the_model_and_its_circuit_alone_are_below_the_threshold(self, model: Studied, met: int) -> None:
        assert self.one(model).share == (met, 1)


class TestC18:
    FIRST, SECOND, THIRD = "L2.H1 x0? -> >x1", "L3.H1 x0? -> >x2", "L4.H1 x0? -> >x3"

    def share(self, *paths: tuple[str, tuple[str | None, ...]]) -> Any:
        return judge_histories(*follow(1), others=[answering(*paths)])["C18"].share

    def test_each_later_answer_reads_the_first_directly_or_through_others(self) -> None:
        chain = ((self.FIRST, (self.SECOND, None)), (self.SECOND, (self.THIRD, None)), (self.THIRD, (None,)))
        assert self.share(*chain) == (1, 1)

    def test_an_answer_that_reads_nothing_of_the_first_is_no_reuse(self) -> None:
        assert self.share((self.FIRST, (self.SECOND, None)), (self.SECOND, (None,)), (self.THIRD, (None,))) == (0, 1)

    def test_a_second_reader_of_the_same_symbol_and_a_single_answer_say_nothing(self) -> None:
        assert self.share((self.FIRST, (None,)), ("L4.H1 x0? -> >x1", (None,))) is None
        assert self.share((self.FIRST, (None,))) is None


def finished_run(path: Path) -> RunFolder:
    """Layers 1, 2 and 3 of a witness are switched on at steps 200, 300 and 500: x1 comes, then x2 and x3 together."""
    run = known_run(path)
    run.finish(Result(600, 1, (ModelResult(0, 0, run.model_hashes[0], 0.0, (0.0,) * 3, 0.0, 0.0, (0.0,) * 3),)))
    return run


STUDY = ModelStudy("paper", (), (Setup("d", WITNESS.problem, recipe(), (0,)),))


class TestWhatIsRead:
    """Beside a run of the witness, whose hops are all learned at step 500."""

    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setattr(Recipe, "architecture", witness_shape)
        run = finished_run(tmp_path / "transformers" / "d")
        circuit_json(run, run.path / "circuit.json")
        emergence_of_run(run, 0)
        return run.path

    def read(self, folder: Path) -> StudiedModels:
        return read_models(STUDY, folder.parents[1])

    def followed(self, folder: Path) -> Studied:
        (followed,) = self.read(folder).followed
        return followed

    def test_a_circuit_and_its_history_are_read(self, folder: Path) -> None:
        assert self.followed(folder).emergence == Emergence.load(folder / "emergence.json")
        (found,) = [row for row in judge(self.read(folder)) if row.id == "C13"]
        assert found.share == (0, 1), "x2 and x3 came together"
        assert found.spread.endswith("losses in order in 0 of 1")

    def test_a_history_of_other_paths_is_not_the_circuits(self, folder: Path) -> None:
        """`hopscope circuit RUN --overwrite` found others since."""
        history = Emergence.load(folder / "emergence.json")
        assert self.followed(folder).emergence == history
        replace(history, paths=history.paths[:2]).save(folder / "emergence.json")
        before = (folder / "emergence.json").read_bytes()
        assert self.followed(folder).emergence is None
        assert (folder / "emergence.json").read_bytes() == before

    def test_without_a_history_the_metrics_say_what_training_came_to(self, folder: Path) -> None:
        history = Emergence.load(folder / "emergence.json")
        (folder / "emergence.json").unlink()
        found = self.followed(folder)
        assert (found.emergence, found.training) == (None, (history.plateau, 600))

    @pytest.mark.parametrize("change", [{"model": "0123456789abcdef"}, {"run": "0123456789abcdef"}, {"number": 1}])
    def test_another_models_history_is_refused_and_kept(self, folder: Path, change: dict[str, Any]) -> None:
        """Planted: the same recipe and seed, trained in another precision."""
        path = folder / "emergence.json"
        assert self.followed(folder).emergence is not None
        replace(Emergence.load(path), **change).save(path)
        before = path.read_bytes()
        with pytest.raises(InputError, match=r"emergence\.json is of another model; .*untouched"):
            self.followed(folder)
        assert path.read_bytes() == before
