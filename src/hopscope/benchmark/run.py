"""A benchmark from start to end: what is missing is asked, every reply kept, the tables written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from hopscope.benchmark.results import Results
from hopscope.benchmark.settings import Cell, Settings
from hopscope.benchmark.summary import Record
from hopscope.benchmark.tables import write_tables
from hopscope.benchmark.trial import Trial
from hopscope.problem.text.questions import Question

Keep = Callable[[Record], None]


class Model(Protocol):
    """Something that can be asked.

    Attributes:
        name: what it is called everywhere.
        identity: plain JSON values by which another model of that name is told apart.
    """

    name: str
    identity: dict[str, Any]

    def ask(self, questions: Sequence[Question], settings: Settings, keep: Keep) -> None:
        """Put questions until each is settled; `keep` gets each record as it comes."""

    def weigh(self, questions: Sequence[Question], settings: Settings, keep: Keep) -> None:
        """Exact mode: weigh the acceptable answers of each question; `keep` gets each record as it comes."""


def nothing(record: Record) -> None:
    """Watch nothing."""


def benchmark(
    models: Sequence[Model],
    cells: Sequence[Cell],
    count: int,
    settings: Settings,
    folder: Path,
    watch: Keep = nothing,
) -> dict[str, Any]:
    """Put `count` questions of every cell to every model, leaving out those answered before.

    Args:
        models: who is asked, one after the other.
        cells: formulations and D.
        count: questions a cell.
        settings: how.
        folder: where the results are or shall be.
        watch: called with every record, those found in the folder first.

    Returns:
        What summary.json holds.

    Raises:
        InputError: the folder holds other settings, a name stands for two models, or a model refuses all work.
    """
    results = Results(folder, settings)
    with results.writing():
        for model in models:
            results.know(model.name, model.identity)
        for model in models:
            questions = [question for cell in cells for question in settings.questions(cell, count)]
            _one(model, questions, settings, results, watch)
            write_tables(results)
    return write_tables(results)


def _one(model: Model, questions: Sequence[Question], settings: Settings, results: Results, watch: Keep) -> None:
    """Ask one model what it has not answered."""
    results.mend(model.name)
    settled = results.settled(model.name)
    wanted = {question.id for question in questions}
    for key, record in results.records(model.name).items():
        if key in settled and key in wanted:
            watch(record)
    missing = [question for question in questions if question.id not in settled]
    open_ids = {question.id for question in missing}

    def keep(record: Record) -> None:
        results.append(record)
        open_ids.discard(record["id"])
        watch(record)

    if missing:
        (model.weigh if settings.mode == "exact" else model.ask)(missing, settings, keep)
    for question in missing:
        if question.id in open_ids:
            keep(Trial(question, settings.rule, settings.attempts, error="lost on the way").record(model.name))
