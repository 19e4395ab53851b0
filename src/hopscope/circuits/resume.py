"""A long search as a generator of stages: each is computed once and saved, so that an interrupted search resumes."""

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
"""A function called with what is being done, how many stages are finished, and how many there are."""

T = TypeVar("T")


@dataclass(frozen=True)
class Stage(Generic[T]):
    """One stage of a search. A search yields it and is sent back its result.

    Attributes:
        name: what is done; unique in its search.
        compute: computes the result.
        problem: the problem whose roles the result names.
        type: the type of the result; None where it is interventions.
        generator: the random generator that the stage draws from; its state is saved with the result.
        done: progress before the stage: how many parts of the search are finished; a part can have several stages.
        stages: how many parts there are; 1 of 1 for a stage that is not counted.
    """

    name: str
    compute: Callable[[], T]
    problem: Problem
    type: type[T] | None = None
    generator: torch.Generator | None = None
    done: int = 1
    stages: int = 1


Search = Generator[Stage[Any], Any, T]
"""A search: yields its stages, is sent the result of each, and returns what was found."""


@dataclass(frozen=True)
class SavedSearch:
    """The settings of a search as plain values, and by name of its finished stages their results.

    Each is JSON in text, beside the state of the stage's random generator after it.
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
    """What a search finds. Stages that are saved are not computed again.

    `save` is called whenever a stage was added to those saved.
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
                text = json.dumps(values, allow_nan=False)  # once: all stages so far are written after each
                saved.stages[stage.name] = text, state
                save(saved)
            else:
                values, state = json.loads(finished[0]), finished[1]
                result = convert(values, stage.type, stage.name) if stage.type else from_json(values, stage.problem)
                if generator:
                    generator.set_state(torch.tensor(list(bytes.fromhex(state)), dtype=torch.uint8))
