"""Tables of a results folder: JSON, CSV, and Markdown that no model name can break."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, fields
from itertools import combinations
from typing import Any

from hopscope.benchmark.points import Pair, Place, Point, Summary, compare, group, places, summarise
from hopscope.benchmark.redaction import shown
from hopscope.benchmark.results import Results
from hopscope.files import write_text
from hopscope.words import markdown_table

_MARKDOWN = str.maketrans({char: f"\\{char}" for char in "\\`*_{}[]<>()#+!|~$&"})


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
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([field.name for field in fields(kind)])
    writer.writerows([_inert(value) for value in asdict(row).values()] for row in values)
    return out.getvalue()


def _inert(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return f"'{shown(value)}" if value[:1] in tuple("=+-@") else shown(value)


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
