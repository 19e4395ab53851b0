"""A study and the record of it that is there already, which is never replaced by one that knows less."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from hopscope.errors import InputError

if TYPE_CHECKING:
    from hopscope.training.work import Work

R = TypeVar("R")


@dataclass(frozen=True)
class RecordedStudy(Generic[R]):
    """A study in a folder that may already hold a record of it.

    Attributes:
        record: path of the record.
        before: the content of the record; None if there is none.
        made: the folder from which the study reads what it made.
        ask: a function that runs the study; with idle work it only reads what is there.
        quick: whether it is the quick version.
    """

    record: Path
    before: R | None
    made: Path
    ask: Callable[[Work], R]
    quick: bool

    def check(self) -> None:
        """Check, before anything is done, that the study covers all results in its record.

        Raises:
            InputError: a result in the record would be lost.
        """
        from hopscope.training.work import Work

        if self.before is not None:
            self._keeps(self.before, self.ask(Work(idle=True)), planned=True)

    def found(self, work: Work) -> R | None:
        """The result of the study, with at least the results in its record; None if work is idle and nothing is there.

        Raises:
            InputError: the result lacks some that are in the record.
        """
        from studies.tools.kept import told

        if work.idle and self.before is not None and not self.made.exists():
            return self.before
        found = self.ask(work)
        if self.before is not None:
            self._keeps(self.before, found)
        return found if told(found) or not work.idle else None

    def _keeps(self, before: R, after: R, *, planned: bool = False) -> None:
        from studies.tools.kept import told

        known = told(before)
        left = known & told(after, planned=planned)
        if left != known:
            raise InputError(
                f"{self.record} tells of {len(known)} results, of which the {'quick' if self.quick else 'whole'} study "
                f"would keep {len(left) or 'none'}; no record is replaced by one that knows less, choose another folder"
            )
