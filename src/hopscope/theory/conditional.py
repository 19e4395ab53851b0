"""Conditional retrieval: the depth of a question whose lookups form a directed acyclic graph (Section 3.1).

A fact `g(y) = z` has several keys: it is found by knowing all of them. A fact is a row of positions, its keys then its
value, that share the fact's place; the question is a row of what is known, and the last position of it is asked. Each
position starts with its symbol and its place, and information flows as before (Assumption 2), with Assumption 1 made
to bite: sharing one key of two is no use, because other facts share it too. So every fact with several keys stands
among distractors, one for each key, in which that key and the value are other symbols, and

    a position can attend to another only if what they share tells it from the same position of its distractors,

where "what they share" is what the one holds now and the other held after this or any earlier layer (a residual stream
can keep what it held in a place of its own). Where every fact has one key there are no distractors, this is
Assumption 1 again, and the depth is that of a chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from hopscope.errors import InputError
from hopscope.files import read_json
from hopscope.records import convert


@dataclass(frozen=True)
class Step:
    """One fact: knowing all `keys`, one can look up `value`."""

    keys: tuple[str, ...]
    value: str


@dataclass(frozen=True)
class ConditionalProblem:
    """A question over facts.

    Args:
        steps: the facts on the way to the answer, in the order of the text.
        known: the symbols in the question; its last position gives the answer.
        target: the symbol asked for.
        causal: whether a position sees earlier positions and itself only.

    Raises:
        InputError: a step without a key, a symbol known or looked up twice, a cycle, or a target that no lookup leads
            to.
    """

    steps: tuple[Step, ...]
    known: tuple[str, ...]
    target: str
    causal: bool = True

    def __post_init__(self) -> None:
        given = list(self.known) + [step.value for step in self.steps]
        twice = sorted({symbol for symbol in given if given.count(symbol) > 1})
        if twice:
            raise InputError(f"{twice[0]!r} is known or looked up twice; each symbol must come from one fact")
        for step in self.steps:
            if not step.keys:
                raise InputError(f"the fact with value {step.value!r} has no key; give it at least one")
        graph = {step.value: step.keys for step in self.steps}
        try:
            order = list(TopologicalSorter(graph).static_order())
        except CycleError as error:
            # graphlib walks from a node to its dependants, which is the direction of looking up.
            circle = " -> ".join(error.args[1])
            raise InputError(
                f"the facts go round in a circle, {circle}; each must lead away from the question"
            ) from None
        reached = set(self.known)
        for symbol in order:
            if symbol in graph and reached.issuperset(graph[symbol]):
                reached.add(symbol)
        if self.target not in reached:
            known = ", ".join(self.known) or "nothing"
            raise InputError(f"{self.target!r} cannot be reached from {known}; a fact that leads to it is missing")


FUNCTIONS = ConditionalProblem(
    steps=(Step(("a", "0"), "3"), Step(("f",), "a"), Step(("i",), "0")), known=("f", "i"), target="3"
)
"""F4: `a(0) = 3`, `f = a`, `i = 0`; what is f(i)? (Appendix A.4)"""

RELATIVES = ConditionalProblem(
    steps=(
        Step(("Lily",), "Brazil"),
        Step(("Eve", "mother"), "Lily"),
        Step(("lawyer",), "mother"),
        Step(("Eve",), "lawyer"),
    ),
    known=("Eve",),
    target="Brazil",
)
"""F5: Lily lives in Brazil, Eve's mother is Lily, lawyers live with their mothers, Eve is a lawyer (Appendix A.5).

Where does Eve live?
"""

NAMED = {"functions": FUNCTIONS, "relatives": RELATIVES}


def load(source: str) -> ConditionalProblem:
    """A problem by name (`functions`, `relatives`) or from a JSON file with the fields of `ConditionalProblem`.

    Raises:
        InputError: no such file, or not a graph of lookups.
    """
    if source in NAMED:
        return NAMED[source]
    what = "a graph of lookups"
    return convert(read_json(Path(source), f"{what} (or name functions or relatives)"), ConditionalProblem, what)


def growth(problem: ConditionalProblem) -> tuple[tuple[str, ...], ...]:
    """The symbols that the asked position holds after layer 0, 1, 2, ..., up to the first with the target.

    Symbols of distractors are left out.

    Its length less one is the minimum number of layers.

    Raises:
        InputError: no number of layers brings the target under a causal mask.
    """
    world = _World(problem)
    history = [world.start]
    while True:
        held = history[-1][-1]
        if held >> world.symbols[problem.target] & 1:
            break
        after = world.next_layer(history)
        if after == history[-1]:
            raise InputError(
                f"{problem.target!r} never reaches the question in this order of the facts under a causal mask; "
                "put facts that are looked up later earlier in the text"
            )
        history.append(after)
    symbols = (*problem.known, *(step.value for step in reversed(problem.steps)))
    return tuple(tuple(name for name in symbols if held[-1] >> world.symbols[name] & 1) for held in history)


def minimum_layers(problem: ConditionalProblem) -> int:
    """The smallest number of layers, of any number of heads, after which the asked position can hold the target.

    Raises:
        InputError: as for `growth`.
    """
    return len(growth(problem)) - 1


class _World:
    """The rows of the text with their distractors, and the question: who holds what, and who resembles whom."""

    def __init__(self, problem: ConditionalProblem) -> None:
        self.causal = problem.causal
        self.symbols: dict[str, int] = {}
        self.start: tuple[int, ...] = ()
        self.roles: list[tuple[int, int]] = []
        pieces = 0
        rows = [(number, row) for number, step in enumerate(problem.steps) for row in _with_distractors(step)]
        for number, row in [*rows, (-1, problem.known)]:
            place, pieces = pieces, pieces + 1
            for token, symbol in enumerate(row):
                if symbol not in self.symbols:
                    self.symbols[symbol], pieces = pieces, pieces + 1
                self.start += (1 << place | 1 << self.symbols[symbol],)
                self.roles.append((number, token))

    def next_layer(self, history: list[tuple[int, ...]]) -> tuple[int, ...]:
        """Holdings after one more layer in which everybody attends to all it can tell apart."""
        now = history[-1]
        after = list(now)
        for i, held in enumerate(now):
            for j in range(i + 1 if self.causal else len(now)):
                if now[j] & ~held and any(self._tells(held, then, i, j) for then in history):
                    after[i] |= now[j]
        return tuple(after)

    def _tells(self, held: int, then: tuple[int, ...], i: int, j: int) -> bool:
        """Whether what i holds and j held is something, and more than any visible look-alike of j held of it."""
        shared = held & then[j]
        rivals = (k for k in range(i + 1 if self.causal else len(then)) if k != j and self.roles[k] == self.roles[j])
        return shared != 0 and all(shared & ~then[k] for k in rivals)


def _with_distractors(step: Step) -> list[tuple[str, ...]]:
    """The fact as a row of symbols, after one distractor for each key where it has several.

    The new symbols have a space in their names, twice, so that they are nobody's.
    """
    row = (*step.keys, step.value)
    if len(step.keys) == 1:
        return [row]
    changed = []
    for dropped in range(len(step.keys)):
        other = list(row)
        for token in (dropped, len(row) - 1):
            other[token] = f"{row[token]}  other {step.value} {dropped}"
        changed.append(tuple(other))
    return [*changed, row]
