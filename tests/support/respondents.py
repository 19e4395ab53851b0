"""What the benchmark asks in its tests: programs that answer as language models do, and model folders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hopscope.benchmark.answers import Reply, Trial
from hopscope.benchmark.settings import BenchmarkSettings, Cell
from hopscope.problem.text.questions import Question

Say = Callable[[Question], str]


class ProgramRespondent:
    """A Python function as a model, where `say` gives the reply to a question; one that is not text is an error."""

    def __init__(self, name: str, say: Say) -> None:
        self.name, self.say = name, say
        self.identity: dict[str, Any] = {"program": name}

    def ask(self, questions: Sequence[Question], settings: BenchmarkSettings, keep: Any) -> None:
        for question in questions:
            trial = Trial(question, settings.rule, settings.attempts)
            while not trial.settled:
                said: Any = self.say(question)
                if isinstance(said, str):
                    trial.replies.append(Reply(said))
                else:
                    trial.error = f"{self.name} gave {type(said).__name__} where a reply is text"
            keep(trial.record(self.name))


class Asked(ProgramRespondent):
    """A program that can stop in the middle, counts what it is asked, and can be weighed."""

    def __init__(self, name: str, say: Say, stop_after: int | None = None) -> None:
        super().__init__(name, say)
        self.stop_after = stop_after
        self.asked: list[str] = []

    def ask(self, questions: Sequence[Question], settings: BenchmarkSettings, keep: Any) -> None:
        for item in questions:
            if settings.mode == "exact":
                weights = {a: 0.6 if a == item.answer else 0.1 for a in item.acceptable}
                keep(Trial(item, settings.rule, 1).record(self.name, "exact", weights=weights))
                continue
            if self.stop_after is not None and len(self.asked) >= self.stop_after:
                raise KeyboardInterrupt
            self.asked.append(item.id)
            super().ask([item], settings, keep)


def right(item: Question) -> str:
    return item.answer


def half(item: Question) -> str:
    return item.answer if item.index % 2 else next(a for a in item.acceptable if a != item.answer)


ONE = (["equations"], [2])
"""One point: equations at D = 2."""
TWO_HOPS = Cell("equations", 2)
SAMPLING = BenchmarkSettings(attempts=300, max_tokens=4, temperature=2.0)
WEIGHING = BenchmarkSettings(mode="exact", exact_tree=True, attempts=300, max_tokens=4, temperature=2.0)
"""Hot, so that replies are rejected too."""


def ask(folder: Path, count: int, settings: BenchmarkSettings, batch: int = 64, cell: Cell = TWO_HOPS) -> list[Any]:
    """The records of a folder that is asked what the benchmark asks, in order."""
    from hopscope.benchmark.local import LocalModel

    model, records = LocalModel(folder, "cpu", batch), []  # type: ignore[var-annotated]
    model.ask(settings.questions(cell, count), settings, records.append)
    return sorted(records, key=lambda record: record.index)
