"""The results folder: plain JSON, with one record per question, which is appended at once and never rewritten.

benchmark.json      the settings, and the identity of each model
records/MODEL.jsonl one record per question; a later record of a question replaces an earlier one
summary.json        all numbers; accuracy.md has the main numbers
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from hopscope.benchmark.answers import Record
from hopscope.benchmark.points import SUMMARY, Point, Summary, by_line, compare, group, summarise
from hopscope.benchmark.redaction import all_redacted, file_name, redacted, shown
from hopscope.benchmark.settings import BenchmarkSettings, Cell
from hopscope.errors import UNTOUCHED, InputError
from hopscope.records import RecordFormat, content_hash, plain, read_rows, row_lines, write_text
from hopscope.words import markdown_table

WHAT = "a benchmark's results"
REPEATS = 60  # after so many equal replies, another reply has a probability below 5% (95% confidence)

_MARKDOWN = str.maketrans({char: f"\\{char}" for char in "\\`*_{}[]<>()#+!|~$&"})


@dataclass(frozen=True)
class Header:
    """The header of a results folder: the settings and, by name, the identity of each model."""

    settings: BenchmarkSettings
    models: dict[str, dict[str, Any]]


_FORMAT = RecordFormat(Header, "benchmark", WHAT)


class Results:
    """The results of one benchmark on disk; a folder with other settings raises an `InputError`.

    The settings and the models' identities are stored with the next record, so no failed call claims a folder.
    """

    def __init__(self, folder: Path, settings: BenchmarkSettings | None = None) -> None:
        self.folder, self._path = folder, folder / "benchmark.json"
        self._stored, there = True, self._path.exists()
        self.header = Header(settings, {}) if settings and not there else _FORMAT.read(self._path)
        for field in fields(settings) if settings is not None else ():
            known, wanted = getattr(self.header.settings, field.name), getattr(settings, field.name)
            if known != wanted:
                words = (known.changed(), wanted.changed()) if field.name == "extensions" else (known, wanted)
                raise InputError(f"{folder} has {field.name} {words[0]!r}, got {words[1]!r}; write to another folder")

    def add_model(self, model: str, identity: dict[str, Any]) -> None:
        """Store the identity of a model, without secrets; an `InputError` is raised if another model has this name."""
        identity = all_redacted(identity)
        known = self.header.models.get(model, {})
        if other := [name for name, value in known.items() if value != identity.get(name)]:
            raise InputError(
                f"in {self.folder} the name {redacted(model)} belongs to another model, by its {other[0]}; "
                "write to another folder"
            )
        self.header.models[model], self._stored = identity, False

    @property
    def hash(self) -> str:
        """A hash of the settings, which is in all files of the folder."""
        return content_hash(plain(self.header.settings))

    def owns(self, path: Path) -> bool:
        """Whether a file in the folder is a file of the benchmark, according to its name."""
        return path in (self._path, self.folder / "summary.json") or path.parent == self.folder / "records"

    def check_complete(self) -> None:
        """Check that all records that the summary counts exist; more records may exist."""
        records = {model: group(self.records(model).values()) for model in self.header.models}
        summary = self.folder / "summary.json"
        for point in SUMMARY.read(summary).points if summary.exists() else ():
            found = len(records.get(point.model, {}).get(Cell(point.formulation, point.hops), []))
            if found < point.asked:
                raise InputError(
                    f"{self.path(point.model)} has {found} of the {point.asked} records of {point.formulation} at "
                    f"{point.hops} hops that summary.json counts; {UNTOUCHED}"
                )

    def path(self, model: str) -> Path:
        """Return the path of a model's records."""
        return self.folder / "records" / f"{file_name(model)}.jsonl"

    def records(self, model: str) -> dict[str, Record]:
        """Return the newest record of every question, by id; only questions with an error must be asked again."""
        path = self.path(model)
        rows = read_rows(path, Record, WHAT, self.hash) if path.exists() else ()
        return {record.id: record for record in rows}

    def append(self, record: Record) -> None:
        """Append a record in one write; the environment's secrets are removed from replies and error messages."""
        if not self._stored:
            _FORMAT.write(self._path, self.header, self.hash)
            self._stored = True
        said = {name: all_redacted(getattr(record, name)) for name in ("error", "response", "rejected")}
        with self.path(record.model).open("ab", buffering=0) as file:
            file.write(row_lines([replace(record, **said)], self.hash).encode())


def write_summary(results: Results) -> Summary:
    """Write summary.json and accuracy.md; return the summary."""
    settings = results.header.settings
    records = {model: group(results.records(model).values()) for model in results.header.models}
    parts = [(model, cell, those) for model, cells in records.items() for cell, those in cells.items()]
    pairs = [
        compare(records[first][cell], those, settings)
        for first, second in combinations(records, 2)
        for cell, those in records[second].items()
        if cell in records[first]
    ]
    points = tuple(summarise(*part, settings) for part in parts)
    lines = tuple(line for part in parts for line in by_line(*part, settings))
    summary = Summary(settings, points, tuple(pair for pair in pairs if pair is not None), lines)
    if points:
        SUMMARY.write(results.folder / "summary.json", summary, results.hash)
        write_text(results.folder / "accuracy.md", as_markdown(points))
    return summary


def markdown(text: str) -> str:
    """Return text escaped so that Markdown shows it unchanged."""
    return shown(text).translate(_MARKDOWN)


def as_markdown(points: Sequence[Point], columns: Sequence[str] = ()) -> str:
    """Return the main numbers as a Markdown table, with a note on models that always repeat their first reply.

    `columns` names the columns that are shown; by default all. Without points, the text is empty.
    """
    rows, repeated = [_row(point) for point in points], ""
    rows = [{name: row[name] for name in columns or row} for row in rows]
    for model in dict.fromkeys(point.model for point in points):
        again = [p.unchanged for p in points if p.model == model and (p.mean_attempts or 0) > 1]
        if sum(again) >= REPEATS and all(again):
            repeated += (
                f"\n{markdown(model)} was asked again {sum(again)} times and always gave its first reply: "
                "the temperature seems to have no effect there, and more attempts add nothing.\n"
            )
    return markdown_table(rows[0], (row.values() for row in rows)) + repeated if rows else ""


def _row(point: Point) -> dict[str, str]:
    """Return the text of a point in each column."""
    if point.mode == "exact":
        first = {"P(acceptable)": point.first_acceptance, "share": point.share, "argmax": point.argmax}
        first["unweighed"] = point.unweighed
    else:
        first = {"first try": point.first_accuracy, "accepted at once": point.first_acceptance}
    return {
        "model": markdown(point.model),
        "formulation": point.formulation,
        "D": str(point.hops),
        "n": str(point.asked),
        "accuracy": _percent(point.accuracy),
        "95% interval": f"{_percent(point.low)} to {_percent(point.high)}",
        "worst, best case": f"{_percent(point.lowest)}, {_percent(point.highest)}",
        "guess": _percent(point.guess),
        "shortcut": _percent(point.shortcut),
        "p (shortcut)": f"{point.p_shortcut:.2g}",
        **{name: _percent(value) for name, value in first.items()},
        "never accepted": f"{round(point.never_accepted, 3):g}",
        "unanswered": str(point.unanswered),
        "attempts": "-" if point.mean_attempts is None else f"{point.mean_attempts:.3g}",
    }


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}%"
