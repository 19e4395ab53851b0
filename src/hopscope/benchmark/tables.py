"""Tables of a results folder: JSON, CSV, and Markdown that no model name can break."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, fields
from itertools import combinations
from typing import Any

from hopscope.benchmark.names import shown
from hopscope.benchmark.results import Results
from hopscope.benchmark.summary import Pair, Place, Row, compare, group, places, rows
from hopscope.files import write_json, write_text

_MARKDOWN = str.maketrans({char: f"\\{char}" for char in "\\`*_{}[]<>()#+!|~$&"})


def write_tables(results: Results) -> dict[str, Any]:
    """Write summary.json, accuracy.csv and .md, positions.csv and comparisons.csv; give what summary.json holds."""
    points = rows(results)
    by_model = {model: group(results.records(model).values()) for model in results.models}
    by_place = [place for cells in by_model.values() for records in cells.values() for place in places(records)]
    pairs = [
        pair
        for first, second in combinations(by_model, 2)
        for cell, records in by_model[first].items()
        if cell in by_model[second] and (pair := compare(records, by_model[second][cell])) is not None
    ]
    summary = {
        "settings": results.header["settings"],
        "points": [asdict(row) for row in points],
        "comparisons": [asdict(pair) for pair in pairs],
    }
    write_json(results.folder / "summary.json", summary)
    write_text(results.folder / "accuracy.csv", as_csv(Row, points))
    write_text(results.folder / "accuracy.md", as_markdown(points))
    write_text(results.folder / "positions.csv", as_csv(Place, by_place))
    write_text(results.folder / "comparisons.csv", as_csv(Pair, pairs))
    return summary


def as_csv(kind: type[Any], values: Sequence[Any]) -> str:
    """CSV with a header; a name that a spreadsheet would run as a formula is kept from it by an apostrophe."""
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
    """Text that Markdown shows as it is."""
    return shown(text).translate(_MARKDOWN)


def as_markdown(points: Sequence[Row]) -> str:
    """The main numbers as a Markdown table."""
    head = [
        "model", "formulation", "D", "accuracy", "95% interval", "guess", "shortcut", "p (guess)", "p (shortcut)",
        "first try", "accepted at once", "never accepted", "unanswered", "attempts", "tokens", "cost",
    ]  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in points]
    return "\n".join(lines) + "\n"


def cells(row: Row) -> list[str]:
    """A row for people."""
    return [
        markdown(row.model),
        row.formulation,
        str(row.hops),
        percent(row.accuracy),
        f"{percent(row.low)} to {percent(row.high)}",
        percent(row.guess),
        percent(row.shortcut),
        f"{row.p_guess:.2g}",
        f"{row.p_shortcut:.2g}",
        percent(row.first_accuracy),
        percent(row.first_acceptance),
        str(row.never_accepted),
        str(row.unanswered),
        "-" if row.mean_attempts is None else f"{row.mean_attempts:.3g}",
        str(row.input_tokens + row.output_tokens),
        "-" if row.cost is None else f"${row.cost:.4f}",
    ]


def percent(value: float | None) -> str:
    """A proportion for people."""
    return "-" if value is None else f"{100 * value:.1f}%"
