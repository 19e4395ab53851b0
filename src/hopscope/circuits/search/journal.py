"""What a long search tells and remembers, so that one that was interrupted goes on where it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hopscope.circuits.evaluator import Evaluator

Watch = Callable[[str, int, int], None]
"""Told what is being done, how many stages are finished, and how many there are."""

SILENT: Watch = lambda stage, done, stages: None
"""Nobody is told."""

Memory = dict[str, Any]
"""What was finished, by name, as plain JSON."""

COST = "evaluations of "
"""Before the name of what is remembered, in the name of what it cost."""


@dataclass(frozen=True)
class Journal:
    """Who is told, and what is remembered.

    Attributes:
        watch: told where things stand.
        memory: what is there is not done again; what is done is added.
        remember: called after `memory` has grown.
    """

    watch: Watch = SILENT
    memory: Memory = field(default_factory=dict)
    remember: Callable[[Memory], None] = lambda memory: None

    def once(self, name: str, make: Callable[[], Any], evaluator: Evaluator) -> Any:
        """What is remembered under a name; made, and remembered, if it is not.

        The evaluator is told what the making had cost, so that an interrupted search counts as one that was not. What
        was remembered of the making, under names that begin with this one and a colon, is let go when it is done.
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
