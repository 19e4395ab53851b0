"""What a long search reports and remembers, so that one that was interrupted goes on where it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hopscope.checks import check_watch

if TYPE_CHECKING:
    from hopscope.circuits.evaluate.evaluator import Evaluator

Watch = Callable[[str, int, int], None]
"""A function called with what is being done, how many stages are finished, and how many there are."""

SILENT: Watch = lambda stage, done, stages: None
"""Nobody is told."""

Memory = dict[str, Any]
"""What is finished, by name, as plain JSON."""

COST = "evaluations of "
"""Prefix: the cost of what is remembered under a name is kept under this and the name."""


@dataclass(frozen=True)
class Journal:
    """Who follows a search, and what is remembered of it.

    Attributes:
        watch: called with the search's progress.
        memory: what is finished; it is not done again, and what is done is added.
        remember: called with `memory` after something was added.
    """

    watch: Watch = SILENT
    memory: Memory = field(default_factory=dict)
    remember: Callable[[Memory], None] = lambda memory: None

    def __post_init__(self) -> None:
        check_watch(self.watch)

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
