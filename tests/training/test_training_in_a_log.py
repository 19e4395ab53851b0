"""Progress where standard error is no terminal: a plain line for each stage, run or checkpoint that is finished."""

from __future__ import annotations

import re

import pytest

from hopscope.cli import _progress, _studies
from hopscope.cli._progress import stage_lines, training_bar
from hopscope.cli._studies import study_bars, waiting
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.engine import Engine
from hopscope.training.progress import Progress, progress_of
from hopscope.training.recipe import Recipe
from hopscope.training.setup import Setup

RECIPE = Recipe(1, 1, 8, 1, 4, final_steps=1, validation_size=4, mlp=False)
SETUPS = [Setup(name, RetrievalProblem(hops=1), RECIPE) for name in ("a", "b", "c")]
HALF, ENDED = Progress(5, 10, ((0.5,),)), Progress(10, 10, ((0.1,),))


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What was said, without how long it took."""
    out, err = capsys.readouterr()
    assert out == ""
    return [re.sub(r"\d+(\.\d)? s$", "_ s", line) for line in err.splitlines()]


def test_a_stage_is_told_when_it_is_over(capsys):
    with stage_lines() as begin:
        begin("growing-1", 1, 3)
        assert lines(capsys) == []
        begin("subsets", 2, 3)
        assert lines(capsys) == ["growing-1 (2 of 3): _ s"]
        begin("certificate: harness", 1, 1)
    assert lines(capsys) == ["subsets (3 of 3): _ s", "certificate: harness: _ s"]


def test_a_stage_that_was_cut_short_is_not_told(capsys):
    def stopped() -> None:
        with stage_lines() as begin:
            begin("growing-1", 1, 3)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert lines(capsys) == []


def test_a_run_is_told_once_and_not_one_that_was_finished_before(capsys):
    with study_bars(SETUPS) as move:
        move({"a": ENDED, "b": HALF, "c": HALF})
        move({"a": ENDED, "b": ENDED, "c": Progress(10, 10, then=True)})
        move({"a": ENDED, "b": ENDED, "c": ENDED})
    assert lines(capsys) == ["b (2 of 3): after _ s", "c (3 of 3): after _ s"]


def test_jobs_are_told_as_they_grow_more(capsys):
    with waiting("circuits", 4) as tell:
        for done in (0, 1, 1, 3):
            tell(done)
    assert lines(capsys) == ["circuits (1 of 4): after _ s", "circuits (3 of 4): after _ s"]


def test_a_run_has_a_line_a_minute_and_one_at_each_hop_that_all_its_models_have_learned(monkeypatch, capsys):
    clock = [0.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: clock[0])
    setup = Setup("run", RetrievalProblem(hops=2), RECIPE, (0, 1))
    diverged = (None, None)
    with training_bar(setup, Engine()) as move:
        for seconds, step, losses, said in (
            (1.0, 8, ((1.0, 1.0), (1.0, 1.0)), ""),
            (59.0, 16, ((0.4, 0.8), (0.6, 0.8)), ""),  # one of them has learned x1
            (61.0, 24, ((0.4, 0.8), (0.6, 0.8)), "step 24 of 3000: 0.4 steps/s, 2.1 h left; x1 0.500  x2 0.800"),
            (70.0, 32, ((0.4, 0.8), (0.4, 0.8)), "x1 0.400  x2 0.800; all learned x1"),
            (80.0, 40, ((0.6, 0.8), (0.4, 0.8)), ""),
            (90.0, 48, ((0.4, 0.8), (0.4, 0.8)), ""),  # it was told before
            (131.0, 1000, (diverged, diverged), "x1 diverged  x2 diverged"),
            (140.0, 2990, ((0.1, 0.1), (0.1, 0.1)), "25 s left; x1 0.100  x2 0.100; all learned x1, x2"),
        ):
            clock[0] = seconds
            move(Progress(step, 3000, losses, 0.4))
            assert capsys.readouterr().err.removesuffix("\n").endswith(said) if said else not capsys.readouterr().err


def test_a_run_of_one_model_tells_no_rate_before_it_is_known(capsys):
    with training_bar(SETUPS[0], Engine()) as move:
        move(Progress(8, 10, ((0.4,),)))
    assert lines(capsys) == ["step 8 of 10; x1 0.400; learned x1"]


def test_a_terminal_gets_bars_alone(monkeypatch, capsys):
    monkeypatch.setattr(_studies, "for_people", lambda: True)
    with study_bars(SETUPS) as move:
        move({"a": HALF, "b": HALF, "c": HALF})
        move({"a": ENDED, "b": HALF, "c": HALF})
    with waiting("circuits", 4) as tell:
        tell(1)
    monkeypatch.setattr(_progress, "for_people", lambda: True)
    with training_bar(SETUPS[0], Engine()) as move:
        move(Progress(5, 10, ((0.1,),)))
    said = capsys.readouterr().err
    assert "5/10 steps" in said
    assert "learned" not in said
    assert "1 of 3 runs" in said
    assert "1/4" in said
    assert "after" not in said


def test_a_finished_run_without_its_rows_is_no_trouble_for_bars(monkeypatch, tmp_path, capsys):
    """What opens the run says that they are missing; what only tells how far it is does not break down over it."""
    monkeypatch.setattr(_studies, "for_people", lambda: True)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "result.json").touch()
    progress = progress_of(SETUPS, tmp_path)
    assert [one.ended for one in progress.values()] == [True, False, False]
    with study_bars(SETUPS) as move:
        move(progress)
    assert "1 of 3 runs" in capsys.readouterr().err
