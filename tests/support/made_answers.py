"""Claims C14 and C15, judged by made-up answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hopscope.benchmark.points import Point, Summary
from hopscope.benchmark.settings import BenchmarkSettings
from hopscope.paper.claims import Finding
from hopscope.paper.section_4 import GUESS, BenchmarkResult, judge
from hopscope.problem.text.questions import FORMULATIONS
from hopscope.statistics import wilson

NINE = [("equations", hops) for hops in range(1, 6)]
NINE += [(name, form.paper_hops) for name, form in FORMULATIONS.items() if name != "equations"]


def point(
    formulation: str, hops: int, model: str = "m", correct: int = 490, accepted: int = 500, **changes: Any
) -> Point:
    low, high = wilson(correct, accepted)
    made = Point(
        model=model, formulation=formulation, hops=hops, mode="sample", asked=500, unanswered=0, accepted=accepted,
        never_accepted=500 - accepted, correct=correct, accuracy=correct / accepted, low=low, high=high,
        lowest=correct / 500, highest=(correct + 500 - accepted) / 500, limit=None, first_accuracy=1.0,
        first_acceptance=1.0, mean_attempts=1.0, guess=GUESS[formulation], shortcut=0.25, p_guess=0.0, p_shortcut=0.0,
        one_spelling=0, reasoned=0, failures=0, input_tokens=0, output_tokens=0, reasoning_tokens=0, cost=None,
    )  # fmt: skip
    return replace(made, **changes)


def nine(model: str = "m", **changes: Any) -> list[Point]:
    return [point(formulation, hops, model, **changes) for formulation, hops in NINE]


def c14(points: list[Point], settings: BenchmarkSettings | None = None) -> Finding:
    summary = Summary(settings or BenchmarkSettings(), tuple(points), ())
    return judge(BenchmarkResult(summary, (), ()))[0] if points else judge(BenchmarkResult(None, (), ()))[0]
