"""The table on the screen while a benchmark runs, and the lines after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hopscope.benchmark.names import shown
from hopscope.benchmark.settings import Cell
from hopscope.benchmark.summary import Record, Row, cell_of, summarise
from hopscope.benchmark.tables import percent


class Board:
    """Counts what comes in. Model names are shown as text, never as markup.

    Args:
        models: names, in the order they are asked.
        cells: points asked of each.
        count: questions at each point.
    """

    def __init__(self, models: Sequence[str], cells: Sequence[Cell], count: int) -> None:
        self._points = [(model, cell) for model in models for cell in cells]
        self._count = count
        self._records: dict[tuple[str, Cell], dict[str, Record]] = {point: {} for point in self._points}
        self._console = Console(stderr=True)

    def see(self, record: Record) -> None:
        """Take in a record; one outside the points asked for now is passed over."""
        there = self._records.get((record["model"], cell_of(record)))
        if there is not None:
            there[record["id"]] = record

    @contextmanager
    def live(self) -> Iterator[None]:
        """Show the table and keep it fresh."""
        with Live(console=self._console, refresh_per_second=2, get_renderable=lambda: Group(self._table())):
            yield

    def _table(self) -> Table:
        table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        table.add_column("model", overflow="fold")
        table.add_column("formulation", no_wrap=True)
        for name in ("D", "done", "accuracy", "95%", "guess, shortcut", "attempts", "cost"):
            table.add_column(name, justify="right", no_wrap=name != "guess, shortcut")
        for point in self._points:
            # A copy: records come in from another thread than the one that draws.
            records = list(self._records[point].values())
            row = summarise(records) if records else None
            table.add_row(Text(shown(point[0])), *self._cells(point[1], row))
        return table

    def _cells(self, cell: Cell, row: Row | None) -> list[str]:
        start = [cell.formulation, str(cell.hops), f"{row.asked if row else 0}/{self._count}"]
        if row is None:
            return [*start, *[""] * 5]
        attempts = "-" if row.mean_attempts is None else f"{row.mean_attempts:.2f}"
        between = f"{percent(row.low)}..{percent(row.high)}"
        cost = "-" if row.cost is None else f"${row.cost:.3f}"
        floors = percent(row.guess) + (f", {percent(row.shortcut)}" if row.shortcut > row.guess else "")
        return [*start, percent(row.accuracy), between, floors, attempts, cost]

    def close(self, summary: dict[str, Any], folder: Path) -> None:
        """The last table on standard output, and what a reader must know about it."""
        console = Console()
        console.print(self._table())
        points = summary["points"]
        unanswered = sum(point["unanswered"] for point in points)
        never = sum(point["never_accepted"] for point in points)
        tokens = sum(point["input_tokens"] + point["output_tokens"] for point in points)
        notes = [f"{tokens} tokens; {never} questions without an acceptable answer; results in {folder}"]
        if unanswered:
            notes.append(
                f"{unanswered} questions are unanswered because calls failed; the same command asks them again"
            )
        if any(point["reasoned"] for point in points):
            notes.append(
                "a provider reported hidden reasoning: those answers are not direct, see `reasoned` in summary.json"
            )
        for note in notes:
            console.print(Text(note))
