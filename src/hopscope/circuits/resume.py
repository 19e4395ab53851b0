"""What a long search reports and remembers, in memory and on disk, so that an interrupted one can be resumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hopscope.checks import check_watch
from hopscope.errors import InputError
from hopscope.records import RecordFormat, plain

if TYPE_CHECKING:
    from hopscope.circuits.evaluate.evaluator import Evaluator

SearchProgress = Callable[[str, int, int], None]
"""A function called with what is being done, how many stages are finished, and how many there are."""

SILENT: SearchProgress = lambda stage, done, stages: None
"""Nothing is reported."""

Memory = dict[str, Any]
"""What is finished, by name, as plain JSON."""

COST = "evaluations of "
"""Prefix: the cost of what is remembered under a name is kept under this and the name."""


@dataclass(frozen=True)
class Journal:
    """Progress of a search, and what is remembered of it.

    Attributes:
        progress: called with the search's progress.
        memory: what is finished; it is not done again, and what is done is added.
        remember: called with `memory` after something was added.
    """

    progress: SearchProgress = SILENT
    memory: Memory = field(default_factory=dict)
    remember: Callable[[Memory], None] = lambda memory: None

    def __post_init__(self) -> None:
        check_watch(self.progress, "progress")

    def once(self, name: str, make: Callable[[], Any], evaluator: Evaluator) -> Any:
        """What is remembered under a name; if nothing is, it is made and remembered.

        The evaluator is told how many evaluations it took, so that an interrupted search counts the same as one that
        was not. What was remembered of its parts, under names that begin with this one and a colon, is then forgotten.
        """
        cost = f"{COST}{name}"
        if name in self.memory:
            evaluator.count(self.memory.get(cost, 0))
        else:
            before = evaluator.evaluations
            self.memory[name] = make()
            for part in [one for one in self.memory if one.removeprefix(COST).startswith(f"{name}: ")]:
                del self.memory[part]
            self.memory[cost] = evaluator.evaluations - before
            self.remember(self.memory)
        return self.memory[name]


@dataclass(frozen=True)
class _Memory:
    """The fields of the file of an interrupted search."""

    asked: dict[str, Any]
    memory: Memory


_FORM = RecordFormat(_Memory, "an interrupted search", "an interrupted search")


@dataclass(frozen=True)
class SavedSearch:
    """A search that may be interrupted, on disk.

    Attributes:
        path: its file, which is there until the search is finished.
        asked: the settings of the search, as plain values; what was finished with other settings does not count.
        run: content hash of the model's run; empty if it is from none.
    """

    path: Path
    asked: dict[str, Any]
    run: str = ""

    @classmethod
    def beside(cls, record: Path, asked: Mapping[str, Any], run: str = "") -> SavedSearch:
        """The search whose result is to be kept in `record`."""
        return cls(record.with_name(f".{record.stem}-search.json"), {name: plain(asked[name]) for name in asked}, run)

    def memory(self) -> Memory:
        """What was finished of this search, with the same settings."""
        if not self.path.exists():
            return {}
        try:
            saved = _FORM.read(self.path, self.run or None)
        except InputError:
            if self.path.exists():
                raise
            return {}  # another process has finished this search
        return saved.memory if saved.asked == self.asked else {}

    def remember(self, memory: Memory) -> None:
        """Write down what is finished."""
        _FORM.write(self.path, _Memory(self.asked, memory), self.run)

    def forget(self) -> None:
        """Delete the file, since the record of the search is there."""
        self.path.unlink(missing_ok=True)
