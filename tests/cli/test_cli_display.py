"""Progress on standard error: bars on a terminal, lines in a log."""

from __future__ import annotations

import re
import time

import pytest

from hopscope.cli import display
from hopscope.cli.display import Display, jobs_display, runs_display, stages_display, training_display
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.side_by_side import progress_of
from hopscope.training.trainer import Progress

RECIPE = Recipe(1, 1, 8, 1, 4, final_steps=1, validation_size=4, mlp=False)
SETUPS = [Setup(name, RetrievalProblem(hops=1), RECIPE) for name in ("a", "b", "c")]
HALF, ENDED = Progress(5, 10, ((0.5,),)), Progress(10, 10, ((0.1,),))


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What was said, without how long it took."""
    out, err = capsys.readouterr()
    assert out == ""
    return [re.sub(r"\d+(\.\d+)? (s|steps/s)\b", r"_ \2", line) for line in err.splitlines()]


def test_a_log_has_a_line_now_and_then_even_where_nothing_is_reported(monkeypatch, capsys):
    monkeypatch.setattr(display, "SECONDS_BETWEEN_LINES", 0.05)
    with Display() as shown:
        shown.update("run", 0, 3000, "steps")
        time.sleep(0.01)
        shown.update("run", 1000, 3000, "steps", "x1 0.400")
        time.sleep(0.2)
    said = lines(capsys)
    assert len(said) >= 2
    assert {line.partition(" left")[0] for line in said} == {"run: 1000 of 3000 steps, _ steps/s, _ s"}
    assert all(line.endswith("left; x1 0.400") for line in said)


def test_a_stage_has_a_line_when_it_is_over_and_none_when_it_was_cut_short(capsys):
    with stages_display() as watch:
        watch("growing-1", 1, 3)
        assert lines(capsys) == []
        watch("subsets", 2, 3)
        assert lines(capsys) == ["growing-1 (2 of 3): _ s"]
        watch("certificate: harness", 1, 1)
    assert lines(capsys) == ["subsets (3 of 3): _ s", "certificate: harness: _ s"]

    def stopped() -> None:
        with stages_display() as watch:
            watch("growing-1", 1, 3)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert lines(capsys) == []


def test_a_finished_run_has_one_line_and_none_if_it_was_finished_before(capsys):
    with runs_display(SETUPS) as watch:
        watch({"a": ENDED, "b": HALF, "c": HALF})
        watch({"a": ENDED, "b": ENDED, "c": HALF})
        watch({"a": ENDED, "b": ENDED, "c": ENDED})
    assert lines(capsys) == ["b is finished, 2 of 3 runs", "c is finished, 3 of 3 runs"]


def test_a_terminal_gets_bars_alone(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(display, "for_people", lambda: True)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "result.json").touch()  # a finished run whose metrics are missing is no trouble for bars
    with runs_display(SETUPS) as watch:
        watch(progress_of(SETUPS, tmp_path))
        watch({"a": ENDED, "b": ENDED, "c": HALF})
    with jobs_display("circuits", 4) as tell:
        tell(1)
    with training_display(SETUPS[0]) as watch:
        watch(Progress(5, 10, ((0.1,),)))
    said = capsys.readouterr().err
    for part in ("2 of 3 runs", "1 of 4 jobs", "5 of 10 steps; x1 0.100"):
        assert part in said
    assert "finished" not in said
