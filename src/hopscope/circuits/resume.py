"""Run a search in stages; the result of each stage is saved, so that an interrupted search can resume."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import torch

from hopscope.circuits.evaluate.ablations import from_json, to_json
from hopscope.display import reporting, stages_display
from hopscope.problem.retrieval import Problem
from hopscope.records import RecordFormat, convert, plain

SearchProgress = Callable[[str, int, int], None]
"""A function that is called with the name of the current stage and the numbers of finished parts and of all parts."""

T = TypeVar("T")


@dataclass(frozen=True)
class Stage(Generic[T]):
    """One stage of a search; the search yields it and is sent its result.

    Attributes:
        name: what the stage does; unique within its search.
        compute: the function that computes the result.
        problem: the problem whose roles the result names.
        type: the type of the result; None if the result is interventions.
        generator: the random generator that the stage draws from; its state is saved with the result.
        done: number of finished parts of the search, for the progress display; a part can have several stages.
        stages: number of parts of the search; a stage that belongs to no part is shown as 1 of 1.
    """

    name: str
    compute: Callable[[], T]
    problem: Problem
    type: type[T] | None = None
    generator: torch.Generator | None = None
    done: int = 1
    stages: int = 1


Search = Generator[Stage[Any], Any, T]
"""A search: a generator that yields its stages, is sent the result of each, and returns the final result."""


@dataclass(frozen=True)
class SavedSearch:
    """The settings of a search as plain values, and its finished stages by name.

    A finished stage is saved as JSON: its result, and the state of its random generator after it.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    stages: dict[str, tuple[str, str]] = field(default_factory=dict)


SAVED = RecordFormat(SavedSearch, "an interrupted search", "an interrupted search")


def run_search(
    search: Search[T],
    progress: SearchProgress | bool = False,
    saved: SavedSearch | None = None,
    save: Callable[[SavedSearch], None] = lambda saved: None,
) -> T:
    """Run a search and return its result; stages in `saved` are not computed again.

    `save` is called with all saved stages whenever a stage has been added to them.
    """
    saved, result = saved or SavedSearch(), None
    with reporting(progress, stages_display()) as report:
        while True:
            try:
                stage = search.send(result)
            except StopIteration as end:
                found: T = end.value
                return found
            report(stage.name, stage.done, stage.stages)
            generator = stage.generator
            if (finished := saved.stages.get(stage.name)) is None:
                result = stage.compute()
                state = bytes(generator.get_state().tolist()).hex() if generator else ""
                values = plain(result) if stage.type else to_json(result, stage.problem)
                text = json.dumps(values, allow_nan=False)  # encoded once: after each stage, `save` writes all stages
                saved.stages[stage.name] = text, state
                save(saved)
            else:
                values, state = json.loads(finished[0]), finished[1]
                result = convert(values, stage.type, stage.name) if stage.type else from_json(values, stage.problem)
                if generator:
                    generator.set_state(torch.tensor(list(bytes.fromhex(state)), dtype=torch.uint8))
