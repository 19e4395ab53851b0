"""Circuits side by side: the mechanism of one, what two have in common, what many models learned.

A step is a path without its layer and head. In a mechanism each layer is replaced by the number of steps that must
come before: a step must come after those that end at one of its two roles. So a step done in layer 3 or in layer 6, by
one head or by three, is one step.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeVar

from hopscope.circuits.checks.card import Strategy
from hopscope.circuits.circuit import Circuit
from hopscope.problem.paths import NamedPath
from hopscope.words import counted


class StepAt(NamedTuple):
    """A path without its layer and head; `depth` counts the steps that end in it, from 1."""

    depth: int
    query: str
    key: str


def mechanism(circuit: Circuit) -> tuple[StepAt, ...]:
    """The steps with their depth, which is 1 for steps that need nothing before them.

    A step that is done again later counts once, where it is first done.
    """
    depth: dict[tuple[str, str], int] = {}
    named = _names(circuit)
    for layer, _, *step in sorted(named, key=lambda path: path[0]):
        query, key = step
        if (query, key) not in depth:
            before = {(earlier, other) for lower, _, earlier, other in named if lower < layer and earlier in step}
            depth[query, key] = 1 + max((depth[one] for one in before - {(query, key)}), default=0)
    return tuple(sorted(StepAt(number, query, key) for (query, key), number in depth.items()))


def steps_beyond_first(paths: Sequence[NamedPath]) -> set[tuple[str, str]]:
    """Query and key role of the paths beyond the first useful layer, in whatever layer and head (C9)."""
    first = min((layer for layer, *_ in paths), default=0)
    return {(query, key) for layer, _, query, key in paths if layer > first}


def first_head_ties_pairs(circuit: Circuit) -> bool:
    """Whether the first layer with paths ties second members of pairs to first members, that is values to keys (C8)."""
    fact_of = circuit.problem.fact_of
    paths = [path.path for path in circuit.paths]
    first = min((path.layer for path in paths), default=0)
    return any(
        path.key < path.query and fact_of(path.query) == fact_of(path.key) > 0
        for path in paths
        if path.layer == first and path.query < len(circuit.problem.roles)
    )


def _names(circuit: Circuit) -> list[NamedPath]:
    """The paths by name: layer and head from 1, roles by name."""
    return [path.path.names(circuit.roles) for path in circuit.paths]


@dataclass(frozen=True)
class Comparison:
    """What two circuits have in common.

    Attributes:
        identical: whether they have the same paths: layer, head, query and key.
        same_mechanism: whether they have the same steps, each at the same depth.
        shared: the paths in both; those in one alone are `only_first` and `only_second`.
        shared_steps: the steps (query role -> key role) in both, in whatever layers and heads.
        step_overlap: the shared steps as a share of all steps of either.
    """

    identical: bool
    same_mechanism: bool
    shared: tuple[str, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    shared_steps: tuple[str, ...]
    step_overlap: float

    def as_text(self, first: str, second: str) -> str:
        """The comparison in a few lines, of two circuits of these names."""
        sameness = (
            "the same circuit" if self.identical
            else "the same mechanism, in other layers or heads" if self.same_mechanism
            else "different mechanisms"
        )  # fmt: skip
        lines = [f"{first} and {second}: {sameness}; {self.step_overlap:.0%} of their steps are shared"]
        for title, paths in (
            ("both", self.shared),
            (f"only {first}", self.only_first),
            (f"only {second}", self.only_second),
            ("steps of both, in whatever layers", self.shared_steps),
        ):
            lines += [f"  {title}:", *(f"    {path}" for path in paths)] if paths else []
        return "\n".join(lines)


def compare(first: Circuit, second: Circuit) -> Comparison:
    """Compare two circuits."""
    of_first, of_second = ([path.path for path in circuit.paths] for circuit in (first, second))
    mechanisms = mechanism(first), mechanism(second)
    steps = [{(step.query, step.key) for step in steps} for steps in mechanisms]
    return Comparison(
        identical=set(of_first) == set(of_second),
        same_mechanism=mechanisms[0] == mechanisms[1],
        shared=tuple(path.describe(first.roles) for path in of_first if path in of_second),
        only_first=tuple(path.describe(first.roles) for path in of_first if path not in of_second),
        only_second=tuple(path.describe(second.roles) for path in of_second if path not in of_first),
        shared_steps=tuple(f"{query} -> {key}" for query, key in sorted(steps[0] & steps[1])),
        step_overlap=overlap(*steps),
    )


def overlap(one: set[Any], other: set[Any]) -> float:
    """What both sets have in common, as a share of all that either has; 1 where both are empty."""
    return len(one & other) / len(one | other) if one | other else 1.0


T = TypeVar("T", bound=str | int)


@dataclass(frozen=True)
class CountedMechanism:
    """A mechanism: its steps, each with its depth, and the hashes of the `count` models that have it."""

    count: int
    steps: tuple[StepAt, ...]
    models: tuple[str, ...]


@dataclass(frozen=True)
class Census:
    """What many models learned. All but `models` and `certified` are counts of models that have a circuit.

    Attributes:
        models: how many models were counted.
        with_circuit: how many have a circuit.
        certified: how many have a certified circuit.
        imposed_passed: in how many the circuit of Appendix E passes all checks, with imposed patterns.
        heads: how many have a circuit of so many heads; `layers` and `paths` likewise.
        strategies: how many answer in which way.
        first_head_ties_pairs: in how many the first layer with paths ties the members of pairs (C8).
        mechanisms: the mechanisms that occur, the most frequent first.
    """

    models: int
    with_circuit: int
    certified: int
    imposed_passed: int
    heads: dict[int, int]
    layers: dict[int, int]
    paths: dict[int, int]
    strategies: dict[Strategy, int]
    first_head_ties_pairs: int
    mechanisms: tuple[CountedMechanism, ...]

    def __str__(self) -> str:
        """The counts in a few lines, as `hopscope circuit census` prints them."""
        have = "has" if self.models == 1 else "have"
        lines = [
            f"{self.with_circuit} of {counted(self.models, 'model')} {have} a circuit, {self.certified} certified; "
            f"{self.imposed_passed} an Appendix E circuit that passes all checks; in "
            f"{self.first_head_ties_pairs} the first layer with paths ties the members of pairs"
        ]
        for name in ("heads", "layers", "paths", "strategies"):
            counts = ", ".join(f"{value}: {count}" for value, count in getattr(self, name).items())
            lines.append(f"  {name:<11} {counts or '-'}")
        for mechanism in self.mechanisms:
            steps = ", ".join(f"{step.query} -> {step.key} ({step.depth})" for step in mechanism.steps)
            lines.append(f"  {mechanism.count} x {steps}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The census as plain values; steps are objects."""
        steps = [[step._asdict() for step in mechanism.steps] for mechanism in self.mechanisms]
        plain = asdict(self)
        for mechanism, objects in zip(plain["mechanisms"], steps, strict=True):
            mechanism["steps"] = objects
        return dict(json.loads(json.dumps(plain)))  # numbers that are keys become text


def census(circuits: Sequence[Circuit]) -> Census:
    """Count what many models learned: how many have a circuit, how large it is, which mechanisms occur how often."""
    found = [circuit for circuit in circuits if circuit.found]
    models: dict[tuple[StepAt, ...], list[str]] = {}
    for circuit in found:
        models.setdefault(mechanism(circuit), []).append(circuit.model)
    by_frequency = sorted(models.items(), key=lambda item: (-len(item[1]), item[0]))
    return Census(
        models=len(circuits),
        with_circuit=len(found),
        certified=sum(circuit.certified for circuit in circuits),
        imposed_passed=sum(circuit.imposed is not None and circuit.imposed.passed for circuit in circuits),
        heads=_counted(len(circuit.used_heads) for circuit in found),
        layers=_counted(len({path.path.layer for path in circuit.paths}) for circuit in found),
        paths=_counted(len(circuit.paths) for circuit in found),
        strategies=_counted(circuit.strategy for circuit in found),
        first_head_ties_pairs=sum(first_head_ties_pairs(circuit) for circuit in found),
        mechanisms=tuple(CountedMechanism(len(names), steps, tuple(names)) for steps, names in by_frequency),
    )


def _counted(values: Iterable[T]) -> dict[T, int]:
    """How often each value occurs, by rising value."""
    return dict(sorted(Counter(values).items()))
