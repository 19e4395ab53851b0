"""A census: what many models learned, by their circuits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

from hopscope.circuits.certificate.part import Sense
from hopscope.circuits.mechanism import StepAt, first_head_ties_pairs, mechanism
from hopscope.circuits.record.circuit import Circuit
from hopscope.circuits.record.strategy import Strategy
from hopscope.words import counted

T = TypeVar("T", bound=str | int)


@dataclass(frozen=True)
class CountedMechanism:
    """A mechanism that some models have.

    Attributes:
        steps: its steps, each with its depth.
        models: hashes of the models that have it.
    """

    steps: tuple[StepAt, ...]
    models: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many models have it."""
        return len(self.models)


@dataclass(frozen=True)
class Census:
    """What many models learned. All but `models` and `certified` are counts of models that have a circuit.

    Attributes:
        models: how many models were looked at.
        with_circuit: how many have a circuit in the natural reading.
        certified: how many have a certified circuit, by sense. A model without a circuit in the natural reading may
            have one in the strict reading.
        heads: how many have a circuit of so many heads.
        layers: how many have one in so many layers.
        paths: how many have one of so many paths.
        strategies: how many answer in which way.
        first_head_ties_pairs: in how many the first layer in use ties the members of pairs (C8).
        mechanisms: the mechanisms that occur, the most frequent first.
    """

    models: int
    with_circuit: int
    certified: dict[Sense, int]
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
            f"{self.with_circuit} of {counted(self.models, 'model')} {have} a circuit, {self.certified['natural']} "
            f"certified in the natural reading, {self.certified['strict']} in the strict one; in "
            f"{self.first_head_ties_pairs} the first layer in use ties the members of pairs"
        ]
        for name in ("heads", "layers", "paths", "strategies"):
            counts = ", ".join(f"{value}: {count}" for value, count in getattr(self, name).items())
            lines.append(f"  {name:<11} {counts or '-'}")
        for one in self.mechanisms:
            steps = ", ".join(f"{step.query} -> {step.key} ({step.depth})" for step in one.steps)
            lines.append(f"  {one.count} x {steps}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The census as plain values: numbers of heads, layers and paths as words, steps as objects."""
        told = {name: value for name, value in vars(self).items() if name != "mechanisms"}
        for name in ("heads", "layers", "paths"):
            told[name] = {str(number): count for number, count in told[name].items()}
        told["mechanisms"] = [
            {"count": one.count, "steps": [step._asdict() for step in one.steps], "models": list(one.models)}
            for one in self.mechanisms
        ]
        return told


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
        certified={sense: sum(sense in circuit.certified for circuit in circuits) for sense in get_args(Sense)},
        heads=_counted(len(circuit.used_heads) for circuit in found),
        layers=_counted(len({one.path.layer for one in circuit.paths}) for circuit in found),
        paths=_counted(len(circuit.paths) for circuit in found),
        strategies=_counted(circuit.strategy for circuit in found),
        first_head_ties_pairs=sum(first_head_ties_pairs(circuit) for circuit in found),
        mechanisms=tuple(CountedMechanism(steps, tuple(names)) for steps, names in by_frequency),
    )


def _counted(values: Iterable[T]) -> dict[T, int]:
    """How often each value occurs, by rising value."""
    return dict(sorted(Counter(values).items()))
