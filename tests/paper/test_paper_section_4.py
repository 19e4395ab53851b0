"""Section 4: the judging of C14 and C15, by benchmarks in which the claims are false, true, and open."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_results import NINE, judge_answers, nine, point

from docs.claims_pages import claims_table, small_models
from hopscope.benchmark.settings import BenchmarkSettings
from hopscope.paper.claims import Finding, complete
from hopscope.paper.section_4 import GUESS, AnswerSpread, BenchmarkResult, judge, read
from hopscope.problem.text.formulation import Extensions
from hopscope.statistics import wilson


def test_a_model_that_solves_everything_is_enough() -> None:
    found = judge_answers(nine())
    assert (found.in_general, found.share, found.run) == ("holds", (1, 1), "benchmark")
    low, high = wilson(490, 500)
    assert f"98.0% ({low:.1%} to {high:.1%})" in found.spread


@pytest.mark.parametrize(("accepted", "expected"), [(475, "holds"), (474, "open")])
def test_acceptable_answers_to_95_of_100(accepted: int, expected: str) -> None:
    assert judge_answers(nine(correct=accepted, accepted=accepted)).in_general == expected


@pytest.mark.parametrize(
    "changed",
    [
        {"extensions": Extensions(shots=2)},
        {"extensions": Extensions(think=True)},
        {"extensions": Extensions(lines="shuffled")},
        {"rule": "lenient"},
        {"reasoning_effort": "high"},
    ],
)
def test_what_is_not_the_papers_way_to_ask_says_nothing(changed: dict[str, Any]) -> None:
    assert judge_answers(nine(), BenchmarkSettings(**changed)).in_general == "open"
    assert judge_answers(nine(), BenchmarkSettings(reasoning_effort="none")).in_general == "holds"


@pytest.mark.parametrize(("correct", "expected"), [(464, "holds"), (460, "open")])
def test_the_lower_bound_of_the_weakest_accuracy_decides(correct: int, expected: str) -> None:
    """One point of the nine is weaker than the others. 464 of 500 have a lower bound of 90.2%, 463 of 90.0%."""
    for place in (4, 7):
        points = nine()
        points[place] = point(*NINE[place], correct=correct)
        found = judge_answers(points)
        assert found.in_general == expected
        assert f"lowest accuracy {correct / 500:.1%} " in found.spread
        assert f"at {NINE[place][0]}, D = {NINE[place][1]}" in found.spread


def test_the_best_of_many_is_corrected_for_and_said() -> None:
    """464 of 500 are enough for one model alone, and not for the best of twenty."""
    others = [point for number in range(19) for point in nine(f"x{number}", correct=100)]
    found = judge_answers([*nine("good", correct=464), *others])
    assert (found.in_general, found.share) == ("open", (0, 20))
    assert found.spread.startswith("the best, good, ")
    assert judge_answers([*nine("good", correct=480), *others]).in_general == "holds"


@pytest.mark.parametrize("faults", [{"accepted": 470, "correct": 460}, {"accepted": 5, "correct": 1}, {"reasoned": 1}])
def test_why_a_model_cannot_be_judged_is_said(faults: dict[str, int]) -> None:
    found = judge_answers([*nine("bad", correct=400), *nine("other", **faults)])
    assert (found.in_general, found.share) == ("open", (0, 2))
    assert found.reason.endswith(" (other)")
    assert "bad" not in found.reason


def test_a_model_asked_in_part_is_not_judged() -> None:
    for place in range(9):
        points = nine()
        del points[place]
        found = judge_answers(points)
        assert (found.in_general, found.reason) == ("not run", "no model was asked everything (1 in part)")
    assert judge_answers([]).in_general == "not run"


def c15(**changes: Any) -> Finding:
    """Of answers spread evenly, but for what is changed in the first formulation."""
    even = [AnswerSpread(name, guess, (int(2000 * guess),) * round(1 / guess), 0.5) for name, guess in GUESS.items()]
    return judge(BenchmarkResult(None, (replace(even[0], **changes), *even[1:])))[1]


def test_answers_must_be_as_likely_as_each_other_and_as_many_as_the_floor_says() -> None:
    found = c15()
    assert (found.as_the_paper, found.in_general) == ("theorem, checked", "theorem, checked")
    assert "2000 questions each" in found.numbers
    for changes in ({"p": 1e-9}, {"guess": 1 / 3}):
        found = c15(**changes)
        assert (found.as_the_paper, found.in_general) == ("no", "does not hold")


def test_small_pretrained_models_are_shown_and_decide_nothing() -> None:
    found = small_models(Path(__file__).parents[2] / "results" / "language-models" / "summary.json")
    assert (found.as_the_paper, found.in_general, found.share) == ("not run", "open", (0, 3))
    assert ": 0.58, 0.54, 0.29, 0.25, 0.25 at D = 1..5, lives-with 0.27, " in found.spread
    assert found.spread.endswith("as code 1.00, 0.90, 0.48, 0.26, 0.25, 0.25 at D = 1..6")


@pytest.mark.slow
def test_our_own_questions(tmp_path: Any) -> None:
    found = judge(read(600, tmp_path))
    assert [finding.as_the_paper for finding in found] == ["not run", "theorem, checked"]
    assert found[1].scale == "600 fresh questions of each formulation"


def test_a_models_name_reaches_nobodys_terminal_or_table_as_it_is() -> None:
    """It comes from outside: no escape of a terminal, and no cell of a table that begins with it."""
    name = "x/<b>\x1b[31m\u202ered|y:8b"
    found = judge_answers([replace(point, model=name) for point in nine(correct=5, accepted=5)])
    assert not any(letter in found.spread + found.reason for letter in "\x1b\u202e")
    (row,) = [row for row in complete([found]) if row.id == "C14"]
    (line,) = [line for line in claims_table(complete([found])).splitlines() if line.startswith("| C14")]
    assert row.reason.startswith("acceptable answers to 1.0% of equations, D = 1")
    assert "\\<b\\>\ufffd\\[31m\ufffdred\\|y:8b\\) |" in line
