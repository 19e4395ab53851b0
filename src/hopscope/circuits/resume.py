"""A long search as a generator of stages: each is computed once and saved, so that an interrupted search resumes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch

from hopscope.checks import check_progress
from hopscope.circuits.evaluate.ablations import Interventions, from_json, to_json
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.errors import InputError
from hopscope.records import RecordFormat, plain

SearchProgress = Callable[[str, int, int], None]
"""A function called with what is being done, how many stages are finished, and how many there are."""

SILENT: SearchProgress = lambda stage, done, stages: None
"""Nothing is reported."""

T = TypeVar("T")


@dataclass(frozen=True)
class Stage(Generic[T]):
    """One stage of a search. A search yields it and is sent back its result.

    Attributes:
        name: what is done; unique in its search.
        compute: computes the result.
        evaluator: the evaluator whose evaluations are counted.
        to_json: the result as plain JSON.
        from_json: the inverse of `to_json`.
        generator: the random generator that the stage draws from; its state is saved with the result.
        done: how many stages like this one are finished before it.
        stages: how many there are.
    """

    name: str
    compute: Callable[[], T]
    evaluator: Evaluator
    to_json: Callable[[T], Any]
    from_json: Callable[[Any], T]
    generator: torch.Generator | None = None
    done: int = 1
    stages: int = 1


def interventions_stage(
    name: str,
    compute: Callable[[], Interventions],
    evaluator: Evaluator,
    generator: torch.Generator | None = None,
    done: int = 1,
    stages: int = 1,
) -> Stage[Interventions]:
    """A stage that ends in interventions; for the arguments see `Stage`."""
    plain, typed = partial(to_json, problem=evaluator.problem), partial(from_json, problem=evaluator.problem)
    return Stage(name, compute, evaluator, plain, typed, generator, done, stages)


Search = Generator[Stage[Any], Any, T]
"""A search: yields its stages, is sent the result of each, and returns what was found."""


@dataclass(frozen=True)
class FinishedStage:
    """The result of a stage, how many evaluations it took, and the state of its random generator after it."""

    result: Any
    evaluations: int
    random: str = ""


@dataclass(frozen=True)
class _Saved:
    """The fields of the file of an interrupted search."""

    settings: dict[str, Any]
    stages: dict[str, FinishedStage]


_FORMAT = RecordFormat(_Saved, "an interrupted search", "an interrupted search")


@dataclass(frozen=True)
class SavedSearch:
    """The finished stages of a search, in memory and, where it has a path, on disk.

    Attributes:
        settings: the settings of the search as plain values; stages of other settings do not count.
        path: the file, which exists until the search is finished.
        run: content hash of the model's run; empty if it is from none.
        stages: the finished stages by name.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    path: Path | None = None
    run: str = ""
    stages: dict[str, FinishedStage] = field(default_factory=dict)

    @classmethod
    def beside(
        cls, record: Path, settings: Mapping[str, Any], run: str = "", *, overwrite: bool = False
    ) -> SavedSearch:
        """The search whose result will be stored in `record`, with the stages that were saved with the same settings.

        `overwrite` starts without them.
        """
        path = record.with_name(f".{record.stem}-search.json")
        search = cls({name: plain(value) for name, value in settings.items()}, path, run)
        try:
            saved = _FORMAT.read(path, run or None) if path.exists() and not overwrite else None
        except InputError:
            if path.exists():
                raise
            saved = None  # another process has finished this search
        if saved is not None and saved.settings == search.settings:
            search.stages.update(saved.stages)
        return search

    def save(self, name: str, stage: FinishedStage) -> None:
        """Add a finished stage."""
        self.stages[name] = stage
        if self.path is not None:
            _FORMAT.write(self.path, _Saved(self.settings, self.stages), self.run)

    def delete(self) -> None:
        """Delete the file, since the result of the search is stored."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def run_search(search: Search[T], progress: SearchProgress = SILENT, saved: SavedSearch | None = None) -> T:
    """What a search finds. Stages that are saved are not computed again, and count as many evaluations as they took."""
    check_progress(progress)
    saved, result = saved or SavedSearch(), None
    while True:
        try:
            stage = search.send(result)
        except StopIteration as end:
            found: T = end.value
            return found
        progress(stage.name, stage.done, stage.stages)
        if (finished := saved.stages.get(stage.name)) is None:
            before = stage.evaluator.evaluations
            result = stage.compute()
            state = "" if stage.generator is None else bytes(stage.generator.get_state().tolist()).hex()
            spent = stage.evaluator.evaluations - before
            saved.save(stage.name, FinishedStage(stage.to_json(result), spent, state))
        else:
            result = stage.from_json(finished.result)
            stage.evaluator.count(finished.evaluations)
            if stage.generator is not None:
                stage.generator.set_state(torch.tensor(list(bytes.fromhex(finished.random)), dtype=torch.uint8))
