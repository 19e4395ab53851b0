"""The results folder, the numbers made from it, the tables and the figure."""

from __future__ import annotations

import csv
import doctest
import io
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hopscope.benchmark.names import file_name, redacted
from hopscope.benchmark.points import Point, Summary, compare, places, summarise
from hopscope.benchmark.results import Results
from hopscope.benchmark.run import ProgramRespondent, benchmark
from hopscope.benchmark.settings import Cell, Settings
from hopscope.benchmark.statistics import wilson
from hopscope.benchmark.trial import Record, weighed
from hopscope.errors import InputError
from hopscope.plot import figure_2, save
from hopscope.plot.figure_2 import label
from hopscope.problem.text.extensions import Extensions
from hopscope.problem.text.questions import Question

Say = Callable[[Question], str]


class Asked(ProgramRespondent):
    """A program that can stop in the middle, counts what it is asked, and can be weighed."""

    def __init__(self, name: str, say: Say, stop_after: int | None = None) -> None:
        super().__init__(name, say)
        self.stop_after = stop_after
        self.asked: list[str] = []

    def ask(self, questions: Sequence[Question], settings: Settings, keep: Any) -> None:
        for item in questions:
            if self.stop_after is not None and len(self.asked) >= self.stop_after:
                raise KeyboardInterrupt
            self.asked.append(item.id)
            super().ask([item], settings, keep)

    def weigh(self, questions: Sequence[Question], settings: Settings, keep: Any) -> None:
        for item in questions:
            weights = {a: 0.6 if a == item.answer else 0.1 for a in item.acceptable}
            keep(weighed(item, self.name, settings.rule, weights))


def right(item: Question) -> str:
    return item.answer


def half(item: Question) -> str:
    return item.answer if item.index % 2 else next(a for a in item.acceptable if a != item.answer)


ONE = (["equations"], [2])
"""One point: equations at D = 2."""
CELL = Cell("equations", 2)


def test_resume_asks_only_what_is_missing(tmp_path: Path) -> None:
    first = Asked("p", half, stop_after=7)
    with pytest.raises(KeyboardInterrupt):
        benchmark([first], tmp_path, *ONE, 20, Settings())
    second, seen = Asked("p", half), []  # type: ignore[var-annotated]
    summary = benchmark([second], tmp_path, *ONE, 20, Settings(), seen.append)
    assert not set(first.asked) & set(second.asked)
    assert len(first.asked) + len(second.asked) == 20
    assert len(seen) == 20
    third = Asked("p", half)
    assert benchmark([third], tmp_path, *ONE, 20, Settings()) == summary
    assert third.asked == []
    benchmark([third], tmp_path, ["equations", "kingdoms"], [2], 25, Settings())
    assert len(third.asked) == 5 + 25


def test_settings_of_a_folder_are_kept(tmp_path: Path) -> None:
    benchmark([Asked("p", right)], tmp_path, *ONE, 2, Settings())
    for other, name in (
        (Settings(seed=1), "seed 0, got 1"),
        (Settings(rule="lenient"), "rule 'exact', got 'lenient'"),
        (Settings(extensions=Extensions(lines="shuffled")), "extensions {}, got {'lines': 'shuffled'}"),
    ):
        with pytest.raises(InputError, match=re.escape(name)):
            benchmark([Asked("p", right)], tmp_path, *ONE, 2, other)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not readable as a benchmark's results"),
        ("[1]", "is not a benchmark's results"),
        ('{"kind": "circuit", "schema": 1}', "is not a benchmark's results"),
        ('{"kind": "benchmark", "schema": 99}', "has schema 99"),
        ('{"kind": "benchmark", "schema": 2, "models": {}}', "settings"),
        (
            '{"kind": "benchmark", "schema": 2, "models": {}, "settings": {"attempts": 0}}',
            "attempts must be at least 1",
        ),
        ('{"kind": "benchmark", "schema": 2, "models": {}, "settings": {"seed": "0"}}', "settings.seed is '0'"),
        ('{"kind": "benchmark", "schema": 2, "models": {}, "settings": {}, "colour": 1}', "has no field colour"),
        ('{"someone": "else"}', "is damaged"),
    ],
)
def test_damaged_and_foreign_folders_are_named_and_left_alone(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "benchmark.json").write_text(text)
    with pytest.raises(InputError, match=re.escape(words)) as error:
        benchmark([Asked("p", right)], tmp_path, *ONE, 2, Settings())
    assert "left untouched" in str(error.value)
    assert (tmp_path / "benchmark.json").read_text() == text
    assert not (tmp_path / "summary.json").exists()
    with pytest.raises(InputError, match="does not exist"):
        Results(tmp_path / "nowhere")


def test_a_folder_of_the_first_schema_goes_on(tmp_path: Path) -> None:
    """As version 0.1.0 wrote it: no kind, extensions that are on alone, derived numbers among an exact record's."""
    settings = {"seed": 0, "rule": "exact", "mode": "exact", "temperature": 1.0, "attempts": 20, "max_tokens": 32}
    settings |= {"reasoning_effort": None, "extensions": {}}
    header = {"schema": 1, "hopscope": "0.1.0", "settings": settings, "models": {"p": {"program": "p"}}}
    (tmp_path / "benchmark.json").write_text(json.dumps(header))
    item = Settings().questions(CELL, 1)[0]
    weights = {a: 0.4 if a == item.answer else 0.1 for a in item.acceptable}
    record = {"model": "p", "id": item.id, "formulation": "equations", "hops": 2, "index": 0, "guess": 0.25}
    record |= {"prompt_hash": item.prompt_hash, "answer": item.answer, "shortcut": 0.25, "lines": list(item.lines)}
    record |= {"mode": "exact", "weights": weights, "p_correct": 0.4, "p_acceptable": 0.7, "accuracy": 4 / 7}
    path = Results(tmp_path).path("p")
    path.parent.mkdir()
    path.write_text(json.dumps(record | {"error": None}) + "\n")
    model = Asked("p", right)
    [found] = benchmark([model], tmp_path, *ONE, 1, Settings(mode="exact")).points
    assert found.limit == pytest.approx(4 / 7)
    assert found.accuracy == pytest.approx(4 / 7)
    assert found.one_spelling == 1  # weighed as 0.1.0 did
    assert len(path.read_text().splitlines()) == 1


def test_the_stored_results_of_our_own_model_are_read() -> None:
    stored = Path(__file__).parents[2] / "results" / "own-model"
    sampled, weighed = (Summary.read(stored / name / "summary.json") for name in ("sampled", "exact"))
    assert [(p.model, p.hops, p.correct) for p in sampled.points][:2] == [
        ("local/own-2-hops", 1, 200),
        ("local/own-2-hops", 2, 200),
    ]
    assert all(p.lowest == p.highest == p.accuracy for p in sampled.points)
    assert all(p.limit == p.accuracy for p in weighed.points)
    assert sampled.settings == Settings()
    assert sampled.comparisons[0].p == 1.0


def test_half_a_line_is_dropped_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    benchmark([Asked("p", right)], tmp_path, *ONE, 3, Settings())
    [path] = (tmp_path / "records").iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    again = Asked("p", right)
    benchmark([again], tmp_path, *ONE, 3, Settings())
    assert len(again.asked) == 1
    assert path.read_bytes() == whole
    path.write_bytes(b"nonsense\n" + whole)
    damaged = path.read_bytes()
    with pytest.raises(InputError, match=r"line 1 of .* is not a benchmark's results"):
        benchmark([again], tmp_path, *ONE, 3, Settings())
    path.write_bytes(whole.replace(b'"attempts": 1', b'"attempts": "one"', 1))
    with pytest.raises(InputError, match=r"line 1 of .* is not a benchmark's results .*checksum"):
        benchmark([again], tmp_path, *ONE, 3, Settings())
    assert damaged.endswith(whole)


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    results = Results(tmp_path, Settings())
    with results.writing(), pytest.raises(InputError, match="another program writes to"):
        benchmark([Asked("p", right)], tmp_path, *ONE, 1, Settings())


def test_what_a_model_drops_is_counted_and_asked_again(tmp_path: Path) -> None:
    class Lossy(ProgramRespondent):
        def ask(self, questions: Sequence[Question], settings: Settings, keep: Any) -> None:
            super().ask(questions[::2], settings, keep)

    summary = benchmark([Lossy("p", right)], tmp_path, *ONE, 10, Settings())
    assert (summary.points[0].asked, summary.points[0].unanswered) == (10, 5)
    assert summary.points[0].accuracy == 1.0
    summary = benchmark([Asked("p", right)], tmp_path, *ONE, 10, Settings())
    assert summary.points[0].unanswered == 0


def records(say: Say, count: int, name: str = "p", **settings: Any) -> list[Record]:
    found: list[Record] = []
    chosen = Settings(**settings)
    ProgramRespondent(name, say).ask(chosen.questions(CELL, count), chosen, found.append)
    return found


def point(found: Sequence[Record], **settings: Any) -> Point:
    return summarise("p", CELL, found, Settings(**settings))


def test_a_summary_by_hand() -> None:
    """Of 8 questions: 4 right at once, 2 wrong at once, 1 never acceptable, 1 lost."""
    texts = {0: "x", 1: "lost"}
    found = records(lambda q: texts.get(q.index, right(q) if q.index < 6 else half(q)), 8, attempts=3)
    found[1] = replace(found[1], error="TimeoutError", attempts=0, accepted=None, failures=("TimeoutError",) * 5)
    row = point(found, attempts=3)
    assert (row.asked, row.unanswered, row.accepted, row.never_accepted) == (8, 1, 6, 1)
    assert row.accuracy == 5 / 6
    assert (row.first_accuracy, row.first_acceptance) == (5 / 7, 6 / 7)
    assert row.mean_attempts == (3 + 6) / 7
    assert row.failures == 5
    assert (row.correct, row.lowest, row.highest) == (5, 5 / 7, 6 / 7)
    assert row.accepted_share == 6 / 8
    assert row.limit is None


def test_places_and_pairs() -> None:
    found = records(lambda q: right(q) if q.lines[0] == 8 else next(a for a in q.acceptable if a != q.answer), 60)
    by_line = {p.line: p.accuracy for p in places("p", CELL, found, Settings()) if p.lookup == 1}
    assert by_line == {5: 0.0, 6: 0.0, 7: 0.0, 8: 1.0}
    assert {p.line for p in places("p", CELL, found, Settings()) if p.lookup == 2} == {1, 2, 3, 4}
    assert sum(p.accepted for p in places("p", CELL, found, Settings()) if p.lookup == 2) == 60
    pair = compare(records(right, 20), records(half, 30, "q"), Settings())
    assert pair is not None
    assert (pair.both, pair.only_first, pair.only_second, pair.difference) == (20, 10, 0, 0.5)
    assert pair.p == pytest.approx(2 * 0.5**10)
    assert pair.low is not None
    assert pair.high is not None
    assert 0.2 < pair.low < 0.5 < pair.high < 0.8
    assert compare(records(right, 3), records(right, 3, seed=5), Settings()) is None


def test_exact_mode_summary(tmp_path: Path) -> None:
    summary = benchmark([Asked("p", right), Asked("q", half)], tmp_path, *ONE, 10, Settings(mode="exact", attempts=3))
    found = summary.points[0]
    assert found.accuracy == pytest.approx(0.6 / 0.9)
    assert found.limit == pytest.approx(0.6 / 0.9)
    assert (found.first_accuracy, found.first_acceptance) == (pytest.approx(0.6), pytest.approx(0.9))
    assert found.mean_attempts == pytest.approx(1 / 0.9)
    assert found.one_spelling == 0
    assert found.accepted == pytest.approx(10 * (1 - 0.1**3))
    [pair] = summary.comparisons
    assert (pair.difference, pair.p) == (pytest.approx(0), None)
    assert pair.low is not None
    assert pair.low < -0.2  # ten questions alike do not prove that two models are


EASY, HARD = (0.9, 0.05), (0.1, 0.1)
"""P(correct) and P(any one wrong acceptable answer) of two kinds of questions."""


def chances(item: Question) -> dict[str, float]:
    """Every second question is hard: seldom accepted, and then at chance."""
    right, wrong = EASY if item.index % 2 else (HARD[0] / 4, HARD[1] / 4)
    return {a: right if a == item.answer else wrong / 3 for a in item.acceptable}


@pytest.mark.parametrize("attempts", [1, 3, 20])
def test_both_modes_count_hard_questions_alike_under_the_attempt_cap(attempts: int) -> None:
    """A cap drops hard questions; exact mode gives the expectation of just that, and its limit without a cap."""
    settings = Settings(attempts=attempts)
    items, rng = settings.questions(CELL, 6000), random.Random(0)

    def say(item: Question) -> str:
        draw = rng.random()
        for answer, chance in chances(item).items():
            draw -= chance
            if draw < 0:
                return answer
        return "no idea"

    sampled: list[Record] = []
    ProgramRespondent("p", say).ask(items, settings, sampled.append)
    exact = [weighed(item, "p", "exact", chances(item)) for item in items]
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
    assert expected.limit == pytest.approx(sum(rates) / 2)
    assert expected.limit < expected.accuracy - 0.04
    assert expected.lowest <= expected.limit <= expected.highest
    assert tried.lowest <= expected.limit <= tried.highest


def test_comparisons_keep_pairs_together() -> None:
    """Two models right on the same half differ by nothing; the interval of unpaired shares would be a fifth wide."""
    half_right, same = records(half, 100), records(half, 100, "q")
    pair = compare(half_right, same, Settings())
    assert pair is not None
    assert (pair.difference, pair.p) == (0, 1)
    assert pair.low == pytest.approx(-wilson(0, 100)[1])
    nearly = records(lambda q: right(q) if q.index < 4 else half(q), 100, "q")
    pair = compare(nearly, half_right, Settings())
    assert pair is not None
    assert (pair.only_first, pair.only_second, pair.difference) == (2, 0, pytest.approx(0.02))
    assert pair.low is not None
    assert pair.high is not None
    assert 0 <= pair.low < 0.02 < pair.high < 0.06


def test_tables_and_figure(tmp_path: Path) -> None:
    names = ["=cmd|'/c'!A1", "a$b$^{x}\n| --- |", "plain/model"]
    programs = [Asked(name, say) for name, say in zip(names, (right, half, lambda _: "never"), strict=True)]
    benchmark(programs, tmp_path, count=4, settings=Settings(attempts=2))
    rows = list(csv.DictReader(io.StringIO((tmp_path / "accuracy.csv").read_text())))
    assert len(rows) == 3 * 10
    assert rows[0]["model"] == "'" + names[0]
    assert not any(row["model"].startswith(("=", "+", "-", "@")) for row in rows)
    assert len((tmp_path / "accuracy.md").read_text().splitlines()) == 2 + 30
    pairs = list(csv.DictReader(io.StringIO((tmp_path / "comparisons.csv").read_text())))
    assert len(pairs) == 10
    summary = Summary.read(tmp_path / "summary.json")
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


def test_file_names_are_harmless_and_differ() -> None:
    names = ["a/b", "a_b", "../../etc/passwd", "", "a\0b", "é" * 300, "CON", "a b"]
    files = [file_name(name) for name in names]
    assert len(set(files)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{1,80}", file) for file in files)


def test_secrets_are_taken_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SOME_API_KEY", "abcdefgh-secret")
    monkeypatch.setenv("SHORT_TOKEN", "1")
    assert redacted("x abcdefgh-secret 1") == "x [secret] 1"
    benchmark([Asked("p", lambda q: "abcdefgh-secret")], tmp_path, *ONE, 2, Settings(attempts=1))
    assert not any("abcdefgh" in path.read_text() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"temperature": 0}, "temperature must be above 0 when a question may be asked again"),
        ({"temperature": 3}, "temperature must lie in 0..2, got 3"),
        ({"attempts": 0}, "attempts must be at least 1, got 0"),
        ({"mode": "guess"}, "mode must be one of sample, exact"),
        ({"mode": "exact", "extensions": Extensions(think=True)}, "cannot let a model think first"),
    ],
)
def test_bad_settings(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        Settings(**values)
    assert replace(Settings(), temperature=0, attempts=1).temperature == 0


def test_the_example_runs() -> None:
    from hopscope.benchmark import run

    assert doctest.testmod(run) == (0, 6)


def test_by_its_short_name(tmp_path: Path) -> None:
    """`hs.benchmark` is callable, also after its room was imported as a module."""
    import hopscope as hs
    import hopscope.benchmark

    summary = hs.benchmark([ProgramRespondent("m", right)], tmp_path, ["kingdoms"], count=3)
    assert [(p.formulation, p.hops, p.accuracy) for p in summary.points] == [("kingdoms", 5, 1.0)]
    assert hopscope.benchmark.run.__name__ == "hopscope.benchmark.run"
    with pytest.raises(InputError, match="is a program and gives no probabilities"):
        hs.benchmark([ProgramRespondent("m", right)], tmp_path / "exact", ["kingdoms"], settings=Settings(mode="exact"))
    with pytest.raises(InputError, match="is neither a folder nor a provider's model"):
        hs.benchmark(["nobody"], tmp_path)
