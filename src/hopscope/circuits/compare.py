"""Compares two circuits: are they the same circuit, the same up to layer numbers, or the same mechanism?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hopscope.circuits.mechanism import mechanism, order
from hopscope.circuits.record.circuit import Circuit
from hopscope.problem.paths import NamedPath


@dataclass(frozen=True)
class Comparison:
    """What two circuits have in common.

    Attributes:
        identical: whether they have the same paths: layer, head, query and key.
        same_order: whether they are the same once the layers in use are numbered 1, 2, ... and heads are ignored.
        same_mechanism: whether they have the same steps, each at the same depth.
        shared: the paths in both.
        only_first: the paths in the first alone.
        only_second: the paths in the second alone.
        shared_steps: the steps (query role -> key role) in both, in whatever layers and heads.
        step_overlap: the shared steps as a share of all steps of either.
    """

    identical: bool
    same_order: bool
    same_mechanism: bool
    shared: tuple[str, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    shared_steps: tuple[str, ...]
    step_overlap: float

    def as_text(self, first: str, second: str) -> str:
        """The comparison in a few lines, of two circuits of these names."""
        if self.identical:
            sameness = "the same circuit"
        elif self.same_order:
            sameness = "the same up to layer and head numbers"
        elif self.same_mechanism:
            sameness = "the same mechanism, laid out otherwise"
        else:
            sameness = "different mechanisms"
        lines = [f"{first} and {second}: {sameness}; {self.step_overlap:.0%} of their steps are shared"]
        for title, paths in (
            ("both", self.shared),
            (f"only {first}", self.only_first),
            (f"only {second}", self.only_second),
            ("steps of both, wherever they stand", self.shared_steps),
        ):
            lines += [f"  {title}:", *(f"    {path}" for path in paths)] if paths else []
        return "\n".join(lines)


def compare(first: Circuit, second: Circuit) -> Comparison:
    """Compare two circuits."""
    mine, theirs = ([one.path for one in circuit.paths] for circuit in (first, second))
    steps = [{(query, key) for _, query, key in order(circuit)} for circuit in (first, second)]
    return Comparison(
        identical=set(mine) == set(theirs),
        same_order=order(first) == order(second),
        same_mechanism=mechanism(first) == mechanism(second),
        shared=tuple(path.describe(first.roles) for path in mine if path in theirs),
        only_first=tuple(path.describe(first.roles) for path in mine if path not in theirs),
        only_second=tuple(path.describe(second.roles) for path in theirs if path not in mine),
        shared_steps=tuple(f"{query} -> {key}" for query, key in sorted(steps[0] & steps[1])),
        step_overlap=overlap(*steps),
    )


def overlap(one: set[Any], other: set[Any]) -> float:
    """What both sets have in common, as a share of all that either has; 1 where both are empty."""
    return len(one & other) / len(one | other) if one | other else 1.0


def in_common_renamed(first: Sequence[NamedPath], second: Sequence[NamedPath]) -> int:
    """How many paths two circuits have in common, once the heads of one are renamed, within each layer, to fit best.

        >>> mine = [(1, 1, ">x1", "x0>"), (1, 2, ">x2", "x1>"), (2, 1, "x0?", ">x1")]
        >>> theirs = [(1, 5, ">x2", "x1>"), (1, 6, ">x1", "x0>"), (3, 1, "x0?", ">x1")]
        >>> in_common_renamed(mine, theirs)
        2

    Args:
        first: the paths of one circuit: layer and head from 1, query and key by name.
        second: those of the other.
    """
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    mine, theirs = (_by_layer_and_head(paths) for paths in (first, second))
    common = 0
    for layer in mine.keys() & theirs.keys():
        shared = np.array([[len(one & other) for other in theirs[layer].values()] for one in mine[layer].values()])
        common += int(shared[linear_sum_assignment(shared, maximize=True)].sum())
    return common


def _by_layer_and_head(paths: Sequence[NamedPath]) -> dict[int, dict[int, set[tuple[str, str]]]]:
    """Query and key of the paths, by layer and then by head."""
    found: dict[int, dict[int, set[tuple[str, str]]]] = defaultdict(lambda: defaultdict(set))
    for layer, head, query, key in paths:
        found[layer][head].add((query, key))
    return found
