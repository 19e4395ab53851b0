"""Progress on standard error: bars on a terminal, lines in a log."""

from __future__ import annotations

import re
import time

import pytest

from hopscope.cli import display
from hopscope.cli.display import Display, counting_display, runs_display, stages_display
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.side_by_side import progress_of
from hopscope.training.trainer import Progress

RECIPE = Recipe(1, 1, 8, 1, 4, final_steps=1, validation_size=4, mlp=False)
SETUPS = [Setup(name, RetrievalProblem(hops=1), RECIPE) for name in ("a", "b", "c")]
HALF, ENDED = Progress(5, 10, ((0.5,),)), Progress(10, 10, ((0.1,),))


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "SECONDS_BETWEEN_LINES", 0.05)


def test_a_log_has_regular_lines_even_without_updates(often: None, capsys: pytest.CaptureFixture[str]) -> None:
    with Display("run", "steps") as shown:
        shown.update(0, 3000)
        time.sleep(0.01)
        shown.update(1000, 3000, "x1 0.400")
        time.sleep(0.2)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert len(lines) >= 2
    assert all(re.fullmatch(r"run: 1000 of 3000 steps, \S+ steps/s, \S+ s left; x1 0\.400", line) for line in lines)


def test_a_log_of_many_runs_names_those_under_way(often: None, capsys: pytest.CaptureFixture[str]) -> None:
    with runs_display(SETUPS) as show:
        show({"a": HALF, "b": HALF, "c": HALF})
        show({"a": ENDED, "b": HALF, "c": HALF})
        time.sleep(0.08)
    err = capsys.readouterr().err
    assert "training: 67%" in err
    assert "1 of 3 runs finished" in err
    assert "; b at step 5 of 10: x1 0.500\n" in err


def test_a_log_of_a_search_names_its_stage(often: None, capsys: pytest.CaptureFixture[str]) -> None:
    with stages_display() as show:
        show("growing-1", 1, 3)
        time.sleep(0.08)
    assert capsys.readouterr().err.startswith("circuit: 1 of 3 stages; growing-1\n")


def test_a_terminal_gets_bars(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(display, "for_people", lambda: True)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "result.json").touch()  # a finished run whose metrics are missing is no trouble for bars
    with runs_display(SETUPS) as show:
        show(progress_of(SETUPS, tmp_path))
        show({"a": ENDED, "b": ENDED, "c": HALF})
    with counting_display("circuits", 4) as count:
        count(1)
    with runs_display(SETUPS[:1]) as show:
        show({"a": Progress(5, 10, ((0.1,),))})
    err = capsys.readouterr().err
    for part in ("2 of 3 runs", "1 of 4 jobs", "x1 0.100"):
        assert part in err
