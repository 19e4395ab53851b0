"""A folder asked what the benchmark asks, its records in hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hopscope.benchmark.local import LocalModel
from hopscope.benchmark.settings import BenchmarkSettings, Cell

TWO_HOPS = Cell("equations", 2)
SAMPLING = BenchmarkSettings(attempts=300, max_tokens=4, temperature=2.0)
WEIGHING = BenchmarkSettings(mode="exact", exact_tree=True, attempts=300, max_tokens=4, temperature=2.0)
"""Hot, so that replies are rejected too."""


def ask(folder: Path, count: int, settings: BenchmarkSettings, batch: int = 64, cell: Cell = TWO_HOPS) -> list[Any]:
    model, records = LocalModel(folder, "cpu", batch), []  # type: ignore[var-annotated]
    (model.weigh if settings.mode == "exact" else model.ask)(settings.questions(cell, count), settings, records.append)
    return sorted(records, key=lambda record: record.index)
