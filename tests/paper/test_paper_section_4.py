"""Section 4: the judging of C14 and C15, by benchmarks in which the claims are false, true, and open."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_results import NINE, judge_answers, nine, point

from hopscope.benchmark.guessing import AnswerSpread, BlindScore
from hopscope.benchmark.settings import BenchmarkSettings
from hopscope.paper.claims import Finding, complete, verdict_table
from hopscope.paper.section_4 import GUESS, BenchmarkResult, judge, read
from hopscope.problem.text.formulation import Extensions
from hopscope.statistics import wilson


def test_a_model_that_solves_everything_is_enough() -> None:
    found = judge_answers(nine())
    assert (found.verdict, found.n) == ("reproduced", 1)
    assert found.interval == pytest.approx(wilson(490, 500))
    assert found.run == "benchmark"


@pytest.mark.parametrize(("accepted", "expected"), [(475, "reproduced"), (474, "inconclusive")])
def test_acceptable_answers_to_95_of_100(accepted: int, expected: str) -> None:
    assert judge_answers(nine(correct=accepted, accepted=accepted)).verdict == expected


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
    assert judge_answers(nine(), BenchmarkSettings(**changed)).verdict == "inconclusive"
    assert judge_answers(nine(), BenchmarkSettings(reasoning_effort="none")).verdict == "reproduced"


@pytest.mark.parametrize(
    ("correct", "expected"),
    [(464, "reproduced"), (460, "inconclusive"), (440, "inconclusive"), (430, "not reproduced")],
)
def test_the_lower_bound_decides(correct: int, expected: str) -> None:
    """One point of the nine is weaker than the others. 464 of 500 have a lower bound of 90.2%, 463 of 90.0%."""
    for place in (4, 7):
        points = nine()
        points[place] = point(*NINE[place], correct=correct)
        found = judge_answers(points)
        assert found.verdict == expected
        assert f"lowest accuracy {correct / 500:.1%} ({NINE[place][0]}, D = {NINE[place][1]})" in found.observed


def test_the_best_of_many_is_corrected_for_and_said() -> None:
    """464 of 500 are enough for one model alone, and not for the best of twenty."""
    others = [point for number in range(19) for point in nine(f"x{number}", correct=100)]
    found = judge_answers([*nine("good", correct=464), *others])
    assert found.verdict == "inconclusive"
    assert "Holm's correction over 20 models" in found.reason
    assert "0 of 20 models asked everything meet it, the best of many shown" in found.observed
    assert found.observed.startswith("good: ")
    assert judge_answers([*nine("good", correct=480), *others]).verdict == "reproduced"


@pytest.mark.parametrize("faults", [{"accepted": 470, "correct": 460}, {"accepted": 5, "correct": 1}, {"reasoned": 1}])
def test_a_model_that_cannot_be_judged_does_not_fail(faults: dict[str, int]) -> None:
    """One fails, and of the other nobody knows."""
    failing = nine("bad", correct=400)
    assert judge_answers(failing).verdict == "not reproduced"
    found = judge_answers([*failing, *nine("other", **faults)])
    assert found.verdict == "inconclusive"
    assert found.reason.endswith(" (other)")
    assert "bad" not in found.reason


def test_a_model_asked_in_part_is_not_judged() -> None:
    for place in range(9):
        points = nine()
        del points[place]
        found = judge_answers(points)
        assert (found.verdict, found.reason) == ("not run", "no model was asked everything (1 in part)")
    assert judge_answers([]).verdict == "not run"


def score(formulation: str, solver: str, p: float = 0.5, asked: int = 2000, **changes: Any) -> BlindScore:
    guess = GUESS[formulation]
    made = BlindScore(formulation, 5, solver, asked, int(guess * asked), guess, guess - 0.02, guess + 0.02, guess, p)
    return replace(made, **changes)


def c15(scores: list[BlindScore]) -> Finding:
    even = tuple(AnswerSpread(name, 5, (500,) * 4, 0.5) for name in GUESS)
    return judge(BenchmarkResult(None, tuple(scores), even))[1]


def everyone(**changes: Any) -> list[BlindScore]:
    return [score(name, solver, **changes) for name in GUESS for solver in ("first value", "last value")]


def test_blind_solvers_must_be_at_the_floor_on_many_questions() -> None:
    assert (c15(everyone()).verdict, c15(everyone()).n) == ("reproduced", 2000)
    assert c15(everyone(asked=499)).verdict == "inconclusive"
    found = c15([*everyone(), score("kingdoms", "remembered answer", p=1e-9, accuracy=0.9)])
    assert found.verdict == "not reproduced"
    assert "kingdoms 90.0% (remembered answer)" in found.observed


@pytest.mark.slow
def test_our_own_questions(tmp_path: Any) -> None:
    found = judge(read(600, tmp_path))
    assert [finding.verdict for finding in found] == ["not run", "reproduced"]
    assert found[1].scale == "600 fresh questions of each formulation"


def test_a_models_name_reaches_nobodys_terminal_or_table_as_it_is() -> None:
    """It comes from outside: no escape of a terminal, and no cell of a table that begins with it."""
    name = "x/<b>\x1b[31m\u202ered|y:8b"
    found = judge_answers([replace(point, model=name) for point in nine(correct=5, accepted=5)])
    assert not any(letter in found.observed + found.reason for letter in "\x1b\u202e")
    (row,) = [row for row in complete([found]) if row.id == "C14"]
    (line,) = [line for line in verdict_table({"mine": complete([found])}).splitlines() if line.startswith("| C14")]
    assert row.reason.startswith("acceptable answers to 1.0% of equations, D = 1")
    assert "inconclusive: acceptable answers to 1.0% of equations, D = 1 " in line
    assert "\\<b\\>\ufffd\\[31m\ufffdred\\|y:8b\\) |" in line
