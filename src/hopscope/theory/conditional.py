"""Conditional retrieval: the depth of a question whose facts form a directed acyclic graph (Section 3.1).

A fact such as `g(y) = z` has several keys: it is found only by knowing all of them. The scene of such a graph
(`hopscope.theory.scene`) has distractors, which share one key of a fact. Information flows as before (Assumption 2),
with Assumption 1 made stricter, since sharing one key of two is not enough:

    a position can attend to another only if what they share tells it from the same position of its distractors.

If every fact has one key, there are no distractors, this is Assumption 1 again, and the depth is that of a chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from hopscope.errors import InputError
from hopscope.files import read_json
from hopscope.problem.graph import CONDITIONAL, Graph, Step
from hopscope.records import convert
from hopscope.theory.information_flow import spread
from hopscope.theory.scene import facts_scene


@dataclass(frozen=True)
class ConditionalProblem:
    """A question over facts.

    Args:
        steps: the facts on the way to the answer, in the order of the text.
        known: the symbols in the question; its last position gives the answer.
        target: the symbol asked for.
        causal: whether a position sees earlier positions and itself only.

    Raises:
        InputError: there are no steps, a step has no key, a symbol is known or looked up twice, the facts form a cycle,
            or the target cannot be reached from the known symbols.
    """

    steps: tuple[Step, ...]
    known: tuple[str, ...]
    target: str
    causal: bool = True

    def __post_init__(self) -> None:
        if not self.steps:
            raise InputError("a conditional problem needs steps, facts with keys and a value, got none")
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

    @property
    def graph(self) -> Graph:
        """The facts in the order of the text."""
        return Graph(self.known, self.steps)


NAMED = {
    name: ConditionalProblem(tuple(reversed(graph.steps)), graph.known, graph.values[-1])
    for name, graph in CONDITIONAL.items()
}
"""The two conditional problems of the paper's prompts, `functions` and `relatives` (`problem.graph`), with the facts
that are looked up last first in the text."""


def load(source: str) -> ConditionalProblem:
    """A problem by name (`functions`, `relatives`) or from a JSON file with the fields of `ConditionalProblem`.

    Raises:
        InputError: the file does not exist, or does not describe a graph of look-ups.
    """
    if source in NAMED:
        return NAMED[source]
    values = read_json(Path(source), "a graph of lookups (or name functions or relatives)")
    return convert(values, ConditionalProblem, f"{source} as a graph of lookups")


def growth(problem: ConditionalProblem, *, head_a_row: bool = False) -> tuple[tuple[str, ...], ...]:
    """The symbols that the asked position holds after layer 0, 1, 2, ..., up to the first with the target.

    Symbols of distractors are left out. The length of the result less one is the minimum number of layers.

    Args:
        problem: the question.
        head_a_row: whether a layer has a head for every row of a block, see `hopscope.theory.information_flow`.

    Raises:
        InputError: under a causal mask, no number of layers carries the target to the question.
    """
    graph = problem.graph
    scene = facts_scene(graph, range(1, len(graph.steps) + 1), problem.causal)
    symbols = (*problem.known, *reversed(graph.values))
    pieces = {symbol: 1 << scene.pieces.index(symbol) for symbol in symbols}
    held: list[int] = []
    for holdings in spread(scene, head_a_row=head_a_row):
        held.append(holdings[scene.asker])
        if held[-1] & pieces[problem.target]:
            return tuple(tuple(symbol for symbol in symbols if holding & pieces[symbol]) for holding in held)
    raise InputError(
        f"{problem.target!r} never reaches the question in this order of the facts under a causal mask; "
        "put facts that are looked up later earlier in the text"
    )
