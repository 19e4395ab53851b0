"""A search that may be interrupted, on disk: what was asked for, and what is finished."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hopscope.circuits.journal import Memory
from hopscope.errors import InputError
from hopscope.records import RecordForm, unmarked


@dataclass(frozen=True)
class _Memory:
    """What the file holds."""

    asked: dict[str, Any]
    memory: Memory


_FORM = RecordForm(_Memory, "an interrupted search", "an interrupted search", upgrade=unmarked)


@dataclass(frozen=True)
class Interrupted:
    """One search.

    Attributes:
        path: its file, which is there until the search is finished.
        asked: the settings of the search; what was finished with other settings does not count.
        run: content hash of the run that the model is from; empty if it is from none.
    """

    path: Path
    asked: dict[str, Any]
    run: str = ""

    @classmethod
    def beside(cls, record: Path, asked: dict[str, Any], run: str = "") -> Interrupted:
        """The search whose result is to be kept in `record`."""
        return cls(record.with_name(f".{record.stem}-search.json"), asked, run)

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
