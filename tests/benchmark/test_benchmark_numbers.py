"""The numbers made from replies, the tables and the figure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from respondents import ONE, TWO_HOPS, Asked, ProgramRespondent, Say, half, right

from hopscope.benchmark.answers import Record, Trial
from hopscope.benchmark.points import SUMMARY, Point, by_line, compare, summarise
from hopscope.benchmark.run import benchmark
from hopscope.benchmark.settings import BenchmarkSettings
from hopscope.errors import InputError
from hopscope.paper.section_4 import figure_2, label
from hopscope.plot import save
from hopscope.problem.text.questions import Question


def records(say: Say, count: int, name: str = "p", **settings: Any) -> list[Record]:
    found: list[Record] = []
    chosen = BenchmarkSettings(**settings)
    ProgramRespondent(name, say).ask(chosen.questions(TWO_HOPS, count), chosen, found.append)
    return found


def point(found: Sequence[Record], **settings: Any) -> Point:
    return summarise("p", TWO_HOPS, found, BenchmarkSettings(**settings))


def test_a_summary_by_hand() -> None:
    """Of 8 questions: 4 right at once, 2 wrong at once, 1 never acceptable, 1 lost."""
    texts = {0: "x", 1: "lost"}
    found = records(lambda q: texts.get(q.index, right(q) if q.index < 6 else half(q)), 8, attempts=3)
    found[1] = replace(found[1], error="TimeoutError", attempts=0, accepted=None)
    row = point(found, attempts=3)
    assert (row.asked, row.unanswered, row.accepted, row.never_accepted) == (8, 1, 6, 1)
    assert row.accuracy == 5 / 6
    assert (row.first_accuracy, row.first_acceptance) == (5 / 7, 6 / 7)
    assert row.mean_attempts == (3 + 6) / 7
    assert (row.correct, row.lowest, row.highest) == (5, 5 / 7, 6 / 7)
    assert row.share is None


def test_places_and_pairs() -> None:
    found = records(lambda q: right(q) if q.lines[0] == 8 else next(a for a in q.acceptable if a != q.answer), 60)
    accuracies = {p.line: p.accuracy for p in by_line("p", TWO_HOPS, found, BenchmarkSettings()) if p.step == 1}
    assert accuracies == {5: 0.0, 6: 0.0, 7: 0.0, 8: 1.0}
    assert {p.line for p in by_line("p", TWO_HOPS, found, BenchmarkSettings()) if p.step == 2} == {1, 2, 3, 4}
    assert sum(p.accepted for p in by_line("p", TWO_HOPS, found, BenchmarkSettings()) if p.step == 2) == 60
    pair = compare(records(right, 20), records(half, 30, "q"), BenchmarkSettings())
    assert pair is not None
    assert (pair.both, pair.only_first, pair.only_second, pair.difference) == (20, 10, 0, 0.5)
    assert pair.p == pytest.approx(2 * 0.5**10)
    assert compare(records(right, 3), records(right, 3, seed=5), BenchmarkSettings()) is None


def test_exact_mode_summary(tmp_path: Path) -> None:
    summary = benchmark(
        [Asked("p", right), Asked("q", half)], tmp_path, *ONE, 10, BenchmarkSettings(mode="exact", attempts=3)
    )
    found = summary.points[0]
    assert found.accuracy == pytest.approx(0.6 / 0.9)
    assert found.share == pytest.approx(0.6 / 0.9)
    assert (found.first_accuracy, found.first_acceptance) == (pytest.approx(0.6), pytest.approx(0.9))
    assert (found.argmax, found.unweighed) == (1, 0)
    assert found.mean_attempts == pytest.approx(1 / 0.9)
    assert found.accepted == pytest.approx(10 * (1 - 0.1**3))
    [pair] = summary.comparisons
    assert (pair.difference, pair.p) == (pytest.approx(0), None)


EASY, HARD = (0.9, 0.05), (0.1, 0.1)
"""P(correct) and P(any one wrong acceptable answer) of two kinds of questions."""


def chances(item: Question) -> dict[str, float]:
    """Every second question is hard: seldom accepted, and then at chance."""
    right, wrong = EASY if item.index % 2 else (HARD[0] / 4, HARD[1] / 4)
    return {a: right if a == item.answer else wrong / 3 for a in item.acceptable}


@pytest.mark.parametrize(
    "attempts", [pytest.param(1, marks=pytest.mark.slow), 3, pytest.param(20, marks=pytest.mark.slow)]
)
def test_both_modes_count_hard_questions_alike_under_the_attempt_cap(attempts: int) -> None:
    """A cap drops hard questions; exact mode gives the expectation of just that, and its limit without a cap."""
    settings = BenchmarkSettings(attempts=attempts)
    items, rng = settings.questions(TWO_HOPS, 6000), random.Random(0)

    def say(item: Question) -> str:
        draw = rng.random()
        for answer, chance in chances(item).items():
            draw -= chance
            if draw < 0:
                return answer
        return "no idea"

    sampled: list[Record] = []
    ProgramRespondent("p", say).ask(items, settings, sampled.append)
    exact = [Trial(item, "exact", 1).record("p", "exact", weights=chances(item)) for item in items]
    tried = point(sampled, attempts=attempts)
    expected = point(exact, attempts=attempts, mode="exact")
    assert tried.accuracy is not None
    assert expected.accuracy is not None
    for one, other, trials in (
        (tried.accuracy, expected.accuracy, tried.accepted),
        (tried.accepted, expected.accepted, None),
        (tried.lowest, expected.lowest, 6000),
        (tried.highest, expected.highest, 6000),
        (tried.first_accuracy, expected.first_accuracy, 6000),
    ):
        assert one is not None
        assert other is not None
        spread = 5 * 0.5 * 6000**0.5 if trials is None else 5 * 0.5 / trials**0.5
        assert abs(one - other) < spread
    # By hand: shares of acceptance weigh a question; without a cap all weigh the same.
    easy, hard = 0.95, HARD[0] / 4 + HARD[1] / 4
    caps = [1 - (1 - p) ** attempts for p in (easy, hard)]
    rates = (0.9 / 0.95, 0.5)
    assert expected.accuracy == pytest.approx(sum(c * r for c, r in zip(caps, rates, strict=True)) / sum(caps))
    assert expected.share == pytest.approx(sum(rates) / 2)
    assert expected.share < expected.accuracy - 0.04
    assert expected.lowest <= expected.share <= expected.highest
    assert tried.lowest <= expected.share <= tried.highest


def test_tables_and_figure(tmp_path: Path) -> None:
    names = ["=cmd|'/c'!A1", "a$b$^{x}\n| --- |", "plain/model"]
    programs = [Asked(name, say) for name, say in zip(names, (right, half, lambda _: "never"), strict=True)]
    benchmark(programs, tmp_path, count=4, settings=BenchmarkSettings(attempts=2))
    assert len((tmp_path / "accuracy.md").read_text().splitlines()) == 2 + 30
    summary = SUMMARY.read(tmp_path / "summary.json")
    assert (len(summary.points), len(summary.comparisons)) == (30, 10)
    assert len(save(figure_2(summary.points), tmp_path / "figure-2")) == 3
    left, others = figure_2(summary.points).axes
    curve = left.containers[0].lines[0]  # type: ignore[attr-defined]
    assert curve.get_xdata().tolist() == [1, 2, 3, 4, 5, 6]
    assert curve.get_ydata().tolist() == [1.0] * 6
    floors = [c for c in others.collections if "dashes" in str(c.get_linestyle()) or c.get_linestyle()[0][1]]  # type: ignore[index]
    heights = sorted({float(c.get_segments()[0][0][1]) for c in floors})  # type: ignore[attr-defined]
    assert heights == [1 / 16, 1 / 4, 17 / 32]
    assert label(names[1]) == "a\\$b\\$^{x}\N{REPLACEMENT CHARACTER}| --- |"
    with pytest.raises(InputError, match="no accuracy to draw"):
        figure_2([point for point in summary.points if point.accuracy is None])
