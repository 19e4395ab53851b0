"""Circuits of models of text, as a study: the rules can say no, and the verb runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hopscope.cli import program
from hopscope.studies.text import Answered, TextResult, judge, table

DOUBLING = ((1, 1, ">x2", "x1>"), (2, 2, ">x1", ">x2"), (3, 1, "answer", ">x1"))


def answered(seed: int, hops: int = 2, **changes: Any) -> Answered:
    """A model in which all is as it should be."""
    good = Answered(
        seed, hops, 1.0, 0.99, 0.04, {"full": 0.0, "imposed": 0.01, "natural": 0.01, "nothing": 1.0}, True, (),
        "doubling", 3, 3, True, DOUBLING,
    )  # fmt: skip
    return replace(good, **changes)


def verdicts(*found: Answered) -> list[str]:
    return [one.verdict for one in judge(TextResult(found))]


def test_three_good_models_are_as_asked() -> None:
    assert verdicts(*map(answered, range(3))) == ["as asked"] * 3


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"certified": False, "failed": ("necessity",)}, 0),
        ({"certified": False, "paths": (), "strategy": "none"}, 0),
        ({"delivers": False}, 1),
        ({"layers_used": 2}, 1),
    ],
)
def test_one_model_that_is_otherwise_is_against_it(changes: dict[str, Any], place: int) -> None:
    assert verdicts(answered(0), answered(1), answered(2, **changes))[place] == "not as asked"


def test_strategies_that_differ_are_inconclusive_and_none_that_doubles_is_against_it() -> None:
    serial = {"strategy": "serial"}
    assert verdicts(answered(0), answered(1, **serial), answered(2))[2] == "inconclusive"
    assert verdicts(*(answered(seed, **serial) for seed in range(3)))[2] == "not as asked"


def test_models_that_do_not_answer_do_not_count() -> None:
    found = [answered(seed, lowest=0.94) for seed in range(3)]
    assert verdicts(*found) == ["not run"] * 3
    assert verdicts(answered(0), answered(1), answered(2, lowest=0.94)) == ["inconclusive"] * 3
    assert "no: necessity" in table(TextResult((answered(0, certified=False, failed=("necessity",)),)))


def test_the_verb_trains_asks_judges_and_goes_on(tmp_path: Path) -> None:
    for _ in range(2):
        done = CliRunner().invoke(program, ["study", "text", str(tmp_path), "--quick"], catch_exceptions=False)
        assert done.exit_code == 0
        assert "| 1 hop: every model has a certified circuit | not run | no model answers | 0 |" in done.stdout
    stored = json.loads((tmp_path / "text.json").read_text())
    assert [one["seed"] for one in stored["found"]] == [0]
    assert (tmp_path / "circuits" / "seed-0-1-hops.json").exists()
