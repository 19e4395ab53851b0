"""The results folder, the numbers made from it, the tables, the figure and the claims."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hopscope.benchmark.names import file_name, redacted
from hopscope.benchmark.results import Results
from hopscope.benchmark.run import benchmark
from hopscope.benchmark.settings import Cell, Settings, cells
from hopscope.benchmark.summary import compare, places, summarise
from hopscope.benchmark.trial import Reply, Trial, weighed
from hopscope.errors import InputError
from hopscope.paper.benchmark_claims import benchmark_claims
from hopscope.plot.benchmark_figure import benchmark_figure, draw_figure, label
from hopscope.problem.text.extensions import Extensions
from hopscope.problem.text.questions import Question

Say = Callable[[Question], str]


class Program:
    """Answers by a function; can stop in the middle, and counts what it is asked."""

    def __init__(self, name: str, say: Say, stop_after: int | None = None) -> None:
        self.name, self.identity, self.say, self.stop_after = name, {"program": name}, say, stop_after
        self.asked: list[str] = []

    def ask(self, questions: Sequence[Question], settings: Settings, keep: Any) -> None:
        for item in questions:
            if self.stop_after is not None and len(self.asked) >= self.stop_after:
                raise KeyboardInterrupt
            self.asked.append(item.id)
            trial = Trial(item, settings.rule, settings.attempts)
            while not trial.settled:
                trial.replies.append(Reply(self.say(item)))
            keep(trial.record(self.name))

    def weigh(self, questions: Sequence[Question], settings: Settings, keep: Any) -> None:
        for item in questions:
            keep(weighed(item, self.name, {a: 0.6 if a == item.answer else 0.1 for a in item.acceptable}))


def right(item: Question) -> str:
    return item.answer


def half(item: Question) -> str:
    return item.answer if item.index % 2 else next(a for a in item.acceptable if a != item.answer)


ONE = [Cell("equations", 2)]


def test_resume_asks_only_what_is_missing(tmp_path: Path) -> None:
    first = Program("p", half, stop_after=7)
    with pytest.raises(KeyboardInterrupt):
        benchmark([first], ONE, 20, Settings(), tmp_path)
    second, seen = Program("p", half), []  # type: ignore[var-annotated]
    summary = benchmark([second], ONE, 20, Settings(), tmp_path, seen.append)
    assert not set(first.asked) & set(second.asked)
    assert len(first.asked) + len(second.asked) == 20
    assert len(seen) == 20
    third = Program("p", half)
    assert benchmark([third], ONE, 20, Settings(), tmp_path) == summary
    assert third.asked == []
    benchmark([third], [*ONE, Cell("kingdoms", 5)], 25, Settings(), tmp_path)
    assert len(third.asked) == 5 + 25


def test_settings_of_a_folder_are_kept(tmp_path: Path) -> None:
    benchmark([Program("p", right)], ONE, 2, Settings(), tmp_path)
    for other, name in (
        (Settings(seed=1), "seed 0, got 1"),
        (Settings(rule="lenient"), "rule 'exact', got 'lenient'"),
        (Settings(extensions=Extensions(lines="shuffled")), "extensions {}, got {'lines': 'shuffled'}"),
    ):
        with pytest.raises(InputError, match=re.escape(name)):
            benchmark([Program("p", right)], ONE, 2, other, tmp_path)


def test_damaged_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "benchmark.json").write_text("{")
    with pytest.raises(InputError, match="left untouched"):
        benchmark([Program("p", right)], ONE, 2, Settings(), tmp_path)
    assert (tmp_path / "benchmark.json").read_text() == "{"
    with pytest.raises(InputError, match="does not exist"):
        Results(tmp_path / "nowhere")


def test_half_a_line_is_dropped_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    benchmark([Program("p", right)], ONE, 3, Settings(), tmp_path)
    [path] = (tmp_path / "records").iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    again = Program("p", right)
    benchmark([again], ONE, 3, Settings(), tmp_path)
    assert len(again.asked) == 1
    assert path.read_bytes() == whole
    path.write_bytes(b"nonsense\n" + whole)
    with pytest.raises(InputError, match=r"line 1 of .* is not JSON"):
        benchmark([again], ONE, 3, Settings(), tmp_path)


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    results = Results(tmp_path, Settings())
    with results.writing(), pytest.raises(InputError, match="another program writes to"):
        benchmark([Program("p", right)], ONE, 1, Settings(), tmp_path)


def test_what_a_model_drops_is_counted_and_asked_again(tmp_path: Path) -> None:
    class Lossy(Program):
        def ask(self, questions: Sequence[Question], settings: Settings, keep: Any) -> None:
            super().ask(questions[::2], settings, keep)

    summary = benchmark([Lossy("p", right)], ONE, 10, Settings(), tmp_path)
    assert (summary["points"][0]["asked"], summary["points"][0]["unanswered"]) == (10, 5)
    assert summary["points"][0]["accuracy"] == 1.0
    summary = benchmark([Program("p", right)], ONE, 10, Settings(), tmp_path)
    assert summary["points"][0]["unanswered"] == 0


def records(say: Say, count: int, name: str = "p", cell: Cell = ONE[0], **settings: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    chosen = Settings(**settings)
    Program(name, say).ask(chosen.questions(cell, count), chosen, found.append)
    return found


def test_a_summary_by_hand() -> None:
    """Of 8 questions: 4 right at once, 2 wrong at once, 1 never acceptable, 1 lost."""
    texts = {0: "x", 1: "lost"}
    found = records(lambda q: texts.get(q.index, right(q) if q.index < 6 else half(q)), 8, attempts=3)
    found[1] = found[1] | {"error": "TimeoutError", "attempts": 0, "failures": ["TimeoutError"] * 5}
    row = summarise(found)
    assert (row.asked, row.unanswered, row.accepted, row.never_accepted) == (8, 1, 6, 1)
    assert row.accuracy == 5 / 6
    assert (row.first_accuracy, row.first_acceptance) == (5 / 7, 6 / 7)
    assert row.mean_attempts == (3 + 6) / 7
    assert row.failures == 5


def test_places_and_pairs() -> None:
    found = records(lambda q: right(q) if q.lines[0] == 8 else next(a for a in q.acceptable if a != q.answer), 60)
    by_line = {p.line: p.accuracy for p in places(found) if p.lookup == 1}
    assert by_line == {5: 0.0, 6: 0.0, 7: 0.0, 8: 1.0}
    assert {p.line for p in places(found) if p.lookup == 2} == {1, 2, 3, 4}
    assert sum(p.accepted for p in places(found) if p.lookup == 2) == 60
    pair = compare(records(right, 20), records(half, 30, "q"))
    assert pair is not None
    assert (pair.both, pair.only_first, pair.only_second, pair.difference) == (20, 10, 0, 0.5)
    assert pair.p == pytest.approx(2 * 0.5**10)
    assert compare(records(right, 3), records(right, 3, seed=5)) is None


def test_exact_mode_summary(tmp_path: Path) -> None:
    [point] = benchmark([Program("p", right)], ONE, 10, Settings(mode="exact"), tmp_path)["points"]
    assert point["accuracy"] == pytest.approx(0.6 / 0.9)
    assert (point["first_accuracy"], point["first_acceptance"]) == (pytest.approx(0.6), pytest.approx(0.9))
    assert point["mean_attempts"] == pytest.approx(1 / 0.9)


def test_tables_and_figure(tmp_path: Path) -> None:
    names = ["=cmd|'/c'!A1", "a$b$^{x}\n| --- |", "plain/model"]
    programs = [Program(name, say) for name, say in zip(names, (right, half, lambda _: "never"), strict=True)]
    benchmark(programs, cells(), 4, Settings(attempts=2), tmp_path)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "accuracy.csv").read_text())))
    assert len(rows) == 3 * 10
    assert rows[0]["model"] == "'" + names[0]
    assert not any(row["model"].startswith(("=", "+", "-", "@")) for row in rows)
    assert len((tmp_path / "accuracy.md").read_text().splitlines()) == 2 + 30
    pairs = list(csv.DictReader(io.StringIO((tmp_path / "comparisons.csv").read_text())))
    assert len(pairs) == 10
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert len(draw_figure(tmp_path)) == 3
    left, others = benchmark_figure(summary["points"]).axes
    curve = left.containers[0].lines[0]  # type: ignore[attr-defined]
    assert curve.get_xdata().tolist() == [1, 2, 3, 4, 5, 6]
    assert curve.get_ydata().tolist() == [1.0] * 6
    floors = [c for c in others.collections if "dashes" in str(c.get_linestyle()) or c.get_linestyle()[0][1]]  # type: ignore[index]
    heights = sorted({float(c.get_segments()[0][0][1]) for c in floors})  # type: ignore[attr-defined]
    assert heights == [1 / 16, 1 / 4, 17 / 32]
    assert label(names[1]) == "a\\$b\\$^{x}\N{REPLACEMENT CHARACTER}| --- |"
    with pytest.raises(InputError, match="no accuracy to draw"):
        benchmark_figure([point for point in summary["points"] if point["accuracy"] is None])


@pytest.mark.parametrize(("say", "verdict"), [(right, "reproduced"), (half, "not reproduced")])
def test_claims(tmp_path: Path, say: Say, verdict: str) -> None:
    benchmark([Program("m", say)], cells(), 40, Settings(), tmp_path)
    claims = {claim["id"]: claim for claim in benchmark_claims(tmp_path)}
    assert list(claims) == ["C14", "C15"]
    assert claims["C14"]["verdict"] == verdict
    assert claims["C15"]["verdict"] == "reproduced"
    assert set(claims["C14"]) == {"id", "ours", "interval", "scale", "verdict"}
    json.dumps(list(claims.values()))


def test_claims_without_a_model(tmp_path: Path) -> None:
    assert [claim["verdict"] for claim in benchmark_claims()] == ["not run", "reproduced"]
    benchmark([Program("m", right)], ONE, 4, Settings(), tmp_path)
    assert benchmark_claims(tmp_path)[0]["verdict"] == "not run"


def test_file_names_are_harmless_and_differ() -> None:
    names = ["a/b", "a_b", "../../etc/passwd", "", "a\0b", "é" * 300, "CON", "a b"]
    files = [file_name(name) for name in names]
    assert len(set(files)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{1,80}", file) for file in files)


def test_secrets_are_taken_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SOME_API_KEY", "abcdefgh-secret")
    monkeypatch.setenv("SHORT_TOKEN", "1")
    assert redacted("x abcdefgh-secret 1") == "x [secret] 1"
    benchmark([Program("p", lambda q: "abcdefgh-secret")], ONE, 2, Settings(attempts=1), tmp_path)
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
