"""What a folder holds already is not written over: a study's record is never replaced by one that knows less."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from hopscope.errors import InputError

if TYPE_CHECKING:
    from hopscope.studies.work import Work

R = TypeVar("R")


def check_no_run(folder: Path) -> None:
    """See that a folder that gets something else than a run, or runs, is none and lies in none.

    Raises:
        InputError: it is a run, or lies in one.
    """
    if (folder / "run.json").exists():
        raise InputError(f"{folder} is a run; choose another folder")
    check_in_no_run(folder)


def check_in_no_run(path: Path) -> None:
    """See that a path lies in no run folder, whose files are a run's alone.

    Raises:
        InputError: it does.
    """
    for around in path.resolve().parents:
        if (around / "run.json").exists():
            raise InputError(f"{path} lies in {around}, which is a run; choose a place outside it")


@dataclass(frozen=True)
class RecordedStudy(Generic[R]):
    """A study in a folder, whose record may know something already.

    Attributes:
        record: the file.
        before: what stands in it; None where there is none.
        made: folder from which the study reads what it made.
        ask: runs the study; with idle work it reads what is there.
        quick: whether it is the quick version.
    """

    record: Path
    before: R | None
    made: Path
    ask: Callable[[Work], R]
    quick: bool

    def check(self) -> None:
        """See, before anything is done, that the study asks about all that its record tells of.

        Raises:
            InputError: it does not.
        """
        from hopscope.studies.work import Work

        if self.before is not None:
            self._keeps(self.before, self.ask(Work(idle=True)), planned=True)

    def found(self, work: Work) -> R | None:
        """What the study comes to: all that its record tells of, and more; None where it is idle and nothing is there.

        Raises:
            InputError: it comes to less than the record.
        """
        from hopscope.studies.kept import told

        if work.idle and self.before is not None and not self.made.exists():
            return self.before
        found = self.ask(work)
        if self.before is not None:
            self._keeps(self.before, found)
        return found if told(found) or not work.idle else None

    def _keeps(self, before: R, after: R, *, planned: bool = False) -> None:
        from hopscope.studies.kept import told

        known = told(before)
        left = known & told(after, planned=planned)
        if left != known:
            raise InputError(
                f"{self.record} tells of {len(known)} results, of which the {'quick' if self.quick else 'whole'} study "
                f"would keep {len(left) or 'none'}; no record is replaced by one that knows less, choose another folder"
            )
