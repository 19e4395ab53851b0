"""A question as a graph of facts: what is retrieved, and by which keys (Section 4).

A fact is found by knowing all its keys, and then gives its value. In a chain each value is the only key of the next
fact. In the conditional formulations, `functions` and `relatives`, two retrieval steps meet in one fact.

A role says which symbol a position of a fact or of the question holds, and as what: `a>` as a key, `>3` as a value,
`f?` as a symbol of the question. For a symbol that is a key of several facts, the value follows: `Eve>lawyer`,
`Eve>Lily`. Roles are numbered fact by fact in the order of retrieval, keys before the value, then those of the
question, which is answered at its last position.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple


@dataclass(frozen=True)
class Step:
    """One fact: `value` is found by knowing all `keys`."""

    keys: tuple[str, ...]
    value: str

    @property
    def width(self) -> int:
        """Number of positions in a row of the fact."""
        return len(self.keys) + 1


class Role(NamedTuple):
    """A role: its name, its fact (from 1; 0 for the question), its place in the row (from 0), and its symbol."""

    name: str
    step: int
    member: int
    symbol: str


class Distractor(NamedTuple):
    """Rows that resemble a chain's: in one fact a key and the value are other symbols, as is all that follows from it.

    Otherwise a fact could be identified by what it leads to, without its keys.

    Attributes:
        others: the symbols that are replaced: the key, the value, and what is retrieved by the value.
        steps: the facts, from 1, of which the distractor has its own row.
    """

    others: tuple[str, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True)
class Graph:
    """The facts that lead from a question to its answer.

    >>> from hopscope.problem.graph import FUNCTIONS
    >>> FUNCTIONS.roles
    ('i>', '>0', 'f>', '>a', 'a>', '0>', '>3', 'f?', 'i?')
    >>> FUNCTIONS.values
    ('0', 'a', '3')

    Args:
        known: the symbols of the question, which is answered at the last of them.
        steps: the facts, in the order of retrieval; the last value is the answer.
    """

    known: tuple[str, ...]
    steps: tuple[Step, ...]

    @cached_property
    def values(self) -> tuple[str, ...]:
        """The symbols that are retrieved, in order."""
        return tuple(step.value for step in self.steps)

    @property
    def symbols(self) -> tuple[str, ...]:
        """All symbols: those of the question, then those retrieved."""
        return self.known + self.values

    @property
    def roles(self) -> tuple[str, ...]:
        """Names of the roles, by number."""
        return tuple(role.name for role in self.places)

    @cached_property
    def places(self) -> tuple[Role, ...]:
        """All roles, by number."""
        roles, facts = [], Counter(key for step in self.steps for key in set(step.keys))
        for number, step in enumerate(self.steps, start=1):
            names = [f"{key}>{step.value if facts[key] > 1 else ''}" for key in step.keys] + [f">{step.value}"]
            symbols = (*step.keys, step.value)
            roles += [Role(names[member], number, member, symbol) for member, symbol in enumerate(symbols)]
        return (*roles, *(Role(f"{symbol}?", 0, member, symbol) for member, symbol in enumerate(self.known)))

    @cached_property
    def distractors(self) -> tuple[Distractor, ...]:
        """One for every key of a fact that has several keys, so that retrieval by fewer keys finds it as well.

        The key in place of one occurs nowhere else in the sequence, and those of the fact do: a head that sees that
        needs one key alone (docs/theory.md, "Conditional retrieval"). Recorded runs are of these distractors.
        """
        found = []
        for number, step in enumerate(self.steps, start=1):
            follows = {number: step.value}
            for later, other in enumerate(self.steps[number:], start=number + 1):
                if {*follows.values()} & {*other.keys}:
                    follows[later] = other.value
            found += [Distractor((key, *follows.values()), (*follows,)) for key in step.keys if len(step.keys) > 1]
        return tuple(found)


@cache
def chain(hops: int) -> Graph:
    """A chain: x0 is known, and fact k leads from x{k-1} to x{k}."""
    return Graph(("x0",), tuple(Step((f"x{k - 1}",), f"x{k}") for k in range(1, hops + 1)))


FUNCTIONS = Graph(("f", "i"), (Step(("i",), "0"), Step(("f",), "a"), Step(("a", "0"), "3")))
"""F4: `a(0) = 3`, `f = a`, `i = 0`; what is f(i)? (Appendix A.4)"""

RELATIVES = Graph(
    ("Eve",),
    (Step(("Eve",), "lawyer"), Step(("lawyer",), "mother"), Step(("Eve", "mother"), "Lily"), Step(("Lily",), "Brazil")),
)
"""F5: Lily lives in Brazil, Eve's mother is Lily, lawyers live with their mothers, Eve is a lawyer.

Where does Eve live? (Appendix A.5)"""

CONDITIONAL = {"functions": FUNCTIONS, "relatives": RELATIVES}
"""The graphs in which retrieval steps meet, by name."""


def look_ups(graph: str, otherwise: int = 3) -> int:
    """Number of retrieval steps in the graph of that name; `otherwise` for a chain."""
    return len(CONDITIONAL[graph].steps) if graph in CONDITIONAL else otherwise
