"""What is looked up, and by what: a question as a graph of facts (Section 4).

A fact is found by knowing all its keys, and then gives its value. In a chain each value is the one key of the next
fact. In the conditional formulations two look-ups meet in one fact: `functions` (Appendix A.4) asks for f(i) where
f = a, i = 0 and a(0) = 3, `relatives` (Appendix A.5) where Eve lives, who is a lawyer, as lawyers live with their
mothers, and whose mother is Lily, who lives in Brazil.

A role is what a position of a fact or of the question holds, and as what: `a>` a key, `>3` a value, `f?` a symbol of
the question. A symbol that is a key of several facts has the value behind it: `Eve>lawyer`, `Eve>Lily`. Roles are
numbered fact by fact in the order of look-up, keys before the value, then the question, whose last position is asked.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache, cached_property


@dataclass(frozen=True)
class Step:
    """One fact: knowing all `keys`, one can look up `value`."""

    keys: tuple[str, ...]
    value: str


@dataclass(frozen=True)
class Graph:
    """The facts that lead from a question to its answer.

    >>> from hopscope.problem.graph import FUNCTIONS
    >>> FUNCTIONS.roles
    ('i>', '>0', 'f>', '>a', 'a>', '0>', '>3', 'f?', 'i?')
    >>> FUNCTIONS.values
    ('0', 'a', '3')

    Args:
        known: the symbols of the question; its last position is asked.
        steps: the facts, in the order of look-up. The value of the last is the answer.
    """

    known: tuple[str, ...]
    steps: tuple[Step, ...]

    @cached_property
    def values(self) -> tuple[str, ...]:
        """The symbols that are looked up, in that order."""
        return tuple(step.value for step in self.steps)

    @property
    def symbols(self) -> tuple[str, ...]:
        """All symbols: those known, then those looked up."""
        return self.known + self.values

    @property
    def roles(self) -> tuple[str, ...]:
        """Names of the roles, by number."""
        return tuple(role.name for role in self.places)

    @cached_property
    def places(self) -> tuple[Role, ...]:
        """What every role is, by number."""
        found, facts = [], Counter(key for step in self.steps for key in set(step.keys))
        for number, step in enumerate(self.steps, start=1):
            for member, key in enumerate(step.keys):
                found.append(Role(f"{key}>{step.value if facts[key] > 1 else ''}", number, member, key))
            found.append(Role(f">{step.value}", number, len(step.keys), step.value))
        return (*found, *(Role(f"{symbol}?", 0, member, symbol) for member, symbol in enumerate(self.known)))

    @cached_property
    def distractors(self) -> tuple[Distractor, ...]:
        """One for every key of a fact that has several, so that a look-up by fewer keys finds one of these as well.

        The key in place of one stands nowhere else in the sequence, and those of the fact do: who sees that needs one
        key alone (docs/theory.md, "Conditional retrieval"). Recorded runs are of these distractors.
        """
        return tuple(
            self._distractor(number, key)
            for number, step in enumerate(self.steps, start=1)
            if len(step.keys) > 1
            for key in step.keys
        )

    def _distractor(self, number: int, key: str) -> Distractor:
        values, rows = [self.steps[number - 1].value], [number]
        for value in values:  # which grow as what follows from them is found
            for other, step in enumerate(self.steps, start=1):
                if value in step.keys and other not in rows:
                    values.append(step.value)
                    rows.append(other)
        return Distractor((key, *values), tuple(rows))


@dataclass(frozen=True)
class Distractor:
    """Rows that look like a chain's: in one fact a key and the value are other symbols, and so is what follows from it.

    Where a value leads on, that of a distractor must too: else the fact is told by what it leads to, and not by its
    keys.

    Attributes:
        others: what is another symbol there: the key, the value, and what is looked up from that.
        steps: the facts, from 1, of which it has a row of its own.
    """

    others: tuple[str, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True)
class Role:
    """What a role is.

    Attributes:
        name: of the role.
        step: the fact it is part of, from 1; 0 for the question.
        member: which position of that row, from 0.
        symbol: that stands there.
    """

    name: str
    step: int
    member: int
    symbol: str


@cache
def chain(hops: int) -> Graph:
    """A chain: x0 is known, and fact k leads from x{k-1} to x{k}."""
    return Graph(("x0",), tuple(Step((f"x{k - 1}",), f"x{k}") for k in range(1, hops + 1)))


FUNCTIONS = Graph(("f", "i"), (Step(("i",), "0"), Step(("f",), "a"), Step(("a", "0"), "3")))
"""F4: `a(0) = 3`, `f = a`, `i = 0`; what is f(i)? (Appendix A.4)"""

RELATIVES = Graph(
    ("Eve",),
    (
        Step(("Eve",), "lawyer"),
        Step(("lawyer",), "mother"),
        Step(("Eve", "mother"), "Lily"),
        Step(("Lily",), "Brazil"),
    ),
)
"""F5: Lily lives in Brazil, Eve's mother is Lily, lawyers live with their mothers, Eve is a lawyer (Appendix A.5).

Where does Eve live?
"""

CONDITIONAL = {"functions": FUNCTIONS, "relatives": RELATIVES}
"""The graphs in which look-ups meet, by name."""


REVISED = {"relatives": 2}
"""Graphs whose sequences are others than they first were, and how often: a run on those of before is another run. 2: a
distractor's value leads on, as the fact's does."""


def look_ups(graph: str, otherwise: int = 3) -> int:
    """How many look-ups a graph of that name makes; of a chain, as many as are asked for."""
    return len(CONDITIONAL[graph].steps) if graph in CONDITIONAL else otherwise
