"""Two circuits side by side: the paths in both, and the retrieval steps in both.

A step is a path without its layer and head, so that a step done in layer 3 or in layer 6, by one head or by three, is
one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hopscope.circuits.circuit import Circuit
from hopscope.problem.paths import NamedPath


@dataclass(frozen=True)
class Comparison:
    """What two circuits have in common.

    Attributes:
        identical: whether they have the same paths: layer, head, query and key.
        same_mechanism: whether they have the same steps (query role -> key role), in whatever layers and heads.
        shared: the paths in both; those in one alone are `only_first` and `only_second`.
        shared_steps: the steps in both.
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
    """Compare two circuits of one problem."""
    of_first, of_second = ([path.path.describe(first.roles) for path in circuit.paths] for circuit in (first, second))
    steps = [{path.path.names(first.roles)[2:] for path in circuit.paths} for circuit in (first, second)]
    return Comparison(
        identical=set(of_first) == set(of_second),
        same_mechanism=steps[0] == steps[1],
        shared=tuple(path for path in of_first if path in of_second),
        only_first=tuple(path for path in of_first if path not in of_second),
        only_second=tuple(path for path in of_second if path not in of_first),
        shared_steps=tuple(f"{query} -> {key}" for query, key in sorted(steps[0] & steps[1])),
        step_overlap=overlap(*steps),
    )


def steps_beyond_first(paths: Sequence[NamedPath]) -> set[tuple[str, str]]:
    """Query and key role of the paths beyond the first useful layer, in whatever layer and head (C9)."""
    first = min((layer for layer, *_ in paths), default=0)
    return {(query, key) for layer, _, query, key in paths if layer > first}


def overlap(one: set[Any], other: set[Any]) -> float:
    """What both sets have in common, as a share of all that either has; 1 where both are empty."""
    return len(one & other) / len(one | other) if one | other else 1.0
