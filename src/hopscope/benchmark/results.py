"""The results folder: plain JSON, one record for each question, appended as it comes and never rewritten; tables.

benchmark.json      the settings, and what each model is
records/MODEL.jsonl one record a question; a later record of a question replaces an earlier one, but for what that cost
summary.json        all numbers; the tables beside it, CSV and Markdown, say the same
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from hopscope.benchmark.answers import Record
from hopscope.benchmark.points import Pair, Place, Point, Summary, compare, group, places, summarise
from hopscope.benchmark.redaction import all_redacted, file_name, redacted, shown
from hopscope.benchmark.settings import BenchmarkSettings, Cell
from hopscope.errors import UNTOUCHED, InputError
from hopscope.files import lock, write_text
from hopscope.records import RecordFormat, content_hash, plain, read_rows, row_lines
from hopscope.words import markdown_table

WHAT = "a benchmark's results"

_MARKDOWN = str.maketrans({char: f"\\{char}" for char in "\\`*_{}[]<>()#+!|~$&"})


@dataclass(frozen=True)
class Header:
    """What a results folder holds: how the questions were put and, by name, what identifies each model."""

    settings: BenchmarkSettings
    models: dict[str, dict[str, Any]]


class Results:
    """The results of one benchmark, on disk; results made with other settings are refused."""

    def __init__(self, folder: Path, settings: BenchmarkSettings | None = None) -> None:
        self.folder, self._path = folder, folder / "benchmark.json"
        if settings is not None and not self._path.exists():
            _FORM.write(self._path, Header(settings, {}), content_hash(plain(settings)))
        self.header = _FORM.read(self._path)
        for field in fields(settings) if settings is not None else ():
            there, wanted = getattr(self.header.settings, field.name), getattr(settings, field.name)
            if there != wanted:
                shown = (there.changed(), wanted.changed()) if field.name == "extensions" else (there, wanted)
                raise InputError(
                    f"{folder} holds results with {field.name} {shown[0]!r}, got {shown[1]!r}; "
                    "write to another folder or keep the setting"
                )

    def know(self, model: str, identity: dict[str, Any]) -> None:
        """Note what identifies a model, without the environment's secrets; a name stands for one model."""
        identity = all_redacted(identity)
        there = self.header.models.get(model, {})
        if other := [name for name, value in there.items() if value != identity.get(name)]:
            raise InputError(
                f"in {self.folder} the name {redacted(model)} stands for another model, by its {other[0]}; "
                "write to another folder"
            )
        self.header.models[model] = identity
        _FORM.write(self._path, self.header, self.hash)

    @property
    def hash(self) -> str:
        """A hash of the settings, which the folder's files carry."""
        return content_hash(plain(self.header.settings))

    def owns(self, path: Path) -> bool:
        """Whether a file in the folder must be one of the benchmark, going by its name."""
        return path in (self._path, self.folder / "summary.json") or path.parent == self.folder / "records"

    def check_complete(self) -> None:
        """Check that all records that the summary counts are there; there may be more."""
        records = {model: group(self.records(model).values()) for model in self.models}
        summary = self.folder / "summary.json"
        for point in Summary.read(summary).points if summary.exists() else ():
            found = len(records.get(point.model, {}).get(Cell(point.formulation, point.hops), []))
            if found < point.asked:
                raise InputError(
                    f"{self.path(point.model)} has {found} of the {point.asked} records of {point.formulation} at "
                    f"{point.hops} hops that summary.json counts; {UNTOUCHED}"
                )

    @property
    def models(self) -> list[str]:
        """The models asked so far, in the order they came."""
        return list(self.header.models)

    def path(self, model: str) -> Path:
        """Where a model's records are."""
        return self.folder / "records" / f"{file_name(model)}.jsonl"

    def records(self, model: str) -> dict[str, Record]:
        """The newest record of every question, by id; those without an error need not be asked again.

        Of a question that was asked again the tokens and the cost are those of all its records.
        """
        path, found = self.path(model), dict[str, Record]()
        for record in read_rows(path, Record, WHAT, self.hash) if path.exists() else ():
            before = found.get(record.id)
            found[record.id] = record if before is None else _with_spent(record, before)
        return found

    def append(self, record: Record) -> None:
        """Add a record in one write, without the environment's secrets."""
        line = row_lines([_free_of_secrets(record)], self.hash)
        with self.path(record.model).open("ab", buffering=0) as file:
            file.write(line.encode())

    def mend(self, model: str) -> None:
        """Drop the half line that a killed writer left at the end, so that the next line is whole."""
        path = self.path(model)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.records(model)
        if path.exists() and not (data := path.read_bytes()).endswith(b"\n"):
            with path.open("r+b") as file:
                file.truncate(data.rfind(b"\n") + 1)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the folder for one writer."""
        busy = f"another program writes to {self.folder}; wait for it or choose another folder"
        with lock(self.folder / ".lock", busy):
            yield


def _with_spent(record: Record, before: Record) -> Record:
    """A record, to which is added what was spent on its question before."""
    costs = [one.cost for one in (before, record) if one.cost is not None]
    tokens = ("input_tokens", "output_tokens", "reasoning_tokens")
    spent = {name: getattr(before, name) + getattr(record, name) for name in tokens}
    return replace(record, cost=sum(costs) if costs else None, **spent)


def _free_of_secrets(record: Record) -> Record:
    """The record with texts from outside redacted. All other fields stay, even where a word of ours is a secret."""
    outside: dict[str, Any] = {name: all_redacted(getattr(record, name)) for name in ("error", "response")}
    outside |= {name: tuple(map(redacted, getattr(record, name))) for name in ("failures", "rejected")}
    return replace(record, **outside)


_FORM = RecordFormat(Header, "benchmark", WHAT)


def write_tables(results: Results) -> Summary:
    """Write summary.json, accuracy.csv and .md, positions.csv and comparisons.csv; return the summary."""
    folder, settings = results.folder, results.header.settings
    records = {model: group(results.records(model).values()) for model in results.models}
    each = [(model, cell, those) for model, cells in records.items() for cell, those in cells.items()]
    pairs = [
        compare(records[first][cell], those, settings)
        for first, second in combinations(records, 2)
        for cell, those in records[second].items()
        if cell in records[first]
    ]
    points = tuple(summarise(*one, settings) for one in each)
    summary = Summary(settings, points, tuple(pair for pair in pairs if pair is not None))
    summary.write(folder / "summary.json")
    write_text(folder / "accuracy.md", as_markdown(points))
    write_text(folder / "accuracy.csv", as_csv(Point, points))
    write_text(folder / "positions.csv", as_csv(Place, [place for one in each for place in places(*one, settings)]))
    write_text(folder / "comparisons.csv", as_csv(Pair, summary.comparisons))
    return summary


def as_csv(kind: type[Any], values: Sequence[Any]) -> str:
    """CSV with a header; an apostrophe keeps a spreadsheet from running a name as a formula."""

    def inert(value: Any) -> Any:
        return ("'" if value[:1] in tuple("=+-@") else "") + shown(value) if isinstance(value, str) else value

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([field.name for field in fields(kind)])
    writer.writerows([inert(value) for value in asdict(row).values()] for row in values)
    return out.getvalue()


def markdown(text: str) -> str:
    """Text that is escaped so that Markdown shows it as it is."""
    return shown(text).translate(_MARKDOWN)


def as_markdown(points: Sequence[Point]) -> str:
    """The main numbers as a Markdown table."""
    if not points:  # a benchmark that was stopped before its first record
        return ""
    rows = [{"model": markdown(point.model), **cells(point)} for point in points]
    return markdown_table(rows[0], (row.values() for row in rows))


def cells(point: Point) -> dict[str, str]:
    """A point in words, by column, without its model."""
    cases = f"{percent(point.lowest)}, {percent(point.highest)}"
    return {
        "formulation": point.formulation,
        "D": str(point.hops),
        "accuracy": percent(point.accuracy),
        "95% interval": f"{percent(point.low)} to {percent(point.high)}",
        "worst, best case": cases if round(point.never_accepted, 3) else "-",
        "guess": percent(point.guess),
        "shortcut": percent(point.shortcut),
        "p (guess)": f"{point.p_guess:.2g}",
        "p (shortcut)": f"{point.p_shortcut:.2g}",
        "first try": percent(point.first_accuracy),
        "accepted at once": percent(point.first_acceptance),
        "never accepted": f"{round(point.never_accepted, 3):g}",
        "unanswered": str(point.unanswered),
        "attempts": "-" if point.mean_attempts is None else f"{point.mean_attempts:.3g}",
        "tokens": str(point.input_tokens + point.output_tokens),
        "cost": "-" if point.cost is None else f"${point.cost:.4f}",
    }


def percent(value: float | None) -> str:
    """A proportion as a percentage; `-` for None."""
    return "-" if value is None else f"{100 * value:.1f}%"
