"""What a folder holds already is not written over: a study's record is never replaced by one that knows less."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hopscope.errors import InputError

if TYPE_CHECKING:
    from hopscope.studies.work import Work

Result = TypeVar("Result")


def check_no_run(folder: Path) -> None:
    """See that a folder that gets runs is none.

    Raises:
        InputError: it is a run.
    """
    if (folder / "run.json").exists():
        raise InputError(f"{folder} is a run; choose another folder")


@dataclass(frozen=True)
class RecordedStudy(Generic[Result]):
    """A study in a folder, whose record may know something already.

    Attributes:
        record: the file.
        before: what stands in it; None where there is none.
        made: folder from which the study reads what it made.
        ask: runs the study; with idle work it reads what is there.
        quick: whether it is the quick version.
    """

    record: Path
    before: Result | None
    made: Path
    ask: Callable[[Work], Result]
    quick: bool

    def check(self) -> None:
        """See, before anything is done, that the study asks about all that its record tells of.

        Raises:
            InputError: it does not.
        """
        from hopscope.studies.work import Work

        if self.before is not None:
            self._keeps(self.before, self.ask(Work(idle=True)), planned=True)

    def found(self, work: Work) -> Result | None:
        """What the study comes to: all that its record tells of, and more; None where it is idle and nothing is there.

        Raises:
            InputError: it comes to less than the record.
        """
        if work.idle and self.before is not None and not self.made.exists():
            return self.before
        found = self.ask(work)
        if self.before is not None:
            self._keeps(self.before, found)
        return found if told(found) or not work.idle else None

    def _keeps(self, before: Result, after: Result, *, planned: bool = False) -> None:
        known = told(before)
        left = known & told(after, planned=planned)
        if left != known:
            raise InputError(
                f"{self.record} tells of {len(known)} results, of which the {'quick' if self.quick else 'whole'} study "
                f"would keep {len(left) or 'none'}; no record is replaced by one that knows less, choose another folder"
            )


def told(found: Any, *, planned: bool = False) -> set[str]:
    """What a study's result tells of, by name: seeds of arms, models, certificates.

    Args:
        found: the result, or a part of it.
        planned: whether seeds count that are not finished.
    """
    from hopscope.records import content_hash, plain
    from hopscope.studies.arms import ArmLearned, runs_of
    from hopscope.studies.calibration_summary import CalibrationSummary
    from hopscope.studies.kept import made_by
    from hopscope.studies.text_found import Answered, Grown

    match found:
        case ArmLearned(setup=setup, seeds=seeds):  # a budget may grow: what is learned in the shorter one is known
            runs = [run for run in runs_of(setup) if planned or run.seeds[0] in seeds]
            return {made_by(replace(run, recipe=replace(run.recipe, steps=1))) for run in runs}
        case CalibrationSummary(proof=proof, counts=counts):
            by = content_hash(plain(proof))
            return {f"{by} {one.family} {one.planted} {n}" for one in counts for n in range(one.certified)}
        case Answered():
            return {f"{found.arm} {found.seed} {found.hops}"}
        case Grown():
            return {f"{found.arm} {found.seed}"}
        case tuple():
            return {name for one in found for name in told(one, planned=planned)}
    if hasattr(found, "made"):
        return {found.made or content_hash(plain(found))}
    if is_dataclass(found):
        return {name for one in fields(found) for name in told(getattr(found, one.name), planned=planned)}
    return set()
