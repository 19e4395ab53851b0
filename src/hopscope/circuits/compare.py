"""Circuits beside each other: is it the same circuit, the same up to layer numbers, the same mechanism?

Two circuits are the same mechanism if their paths, with layers replaced by how many steps must come before, are the
same: a path must come after those that bring something to one of its two ends. So a step done in layer 3 or in layer
6, once or by three heads, is one step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hopscope.circuits.record import Circuit, CircuitPath
from hopscope.problem.roles import query_role, role_number

Step = tuple[int, str, str]
"""A path without its head: depth or layer, query role, key role."""


@dataclass(frozen=True)
class Comparison:
    """Two circuits.

    Attributes:
        identical: the same paths: layer, head, query, key.
        same_order: the same after numbering the layers in use 1, 2, ... and forgetting heads.
        same_mechanism: the same steps, each at the same depth.
        shared: paths in both.
        only_first: paths in the first alone.
        only_second: paths in the second alone.
        shared_steps: query and key roles in both, wherever they stand.
        step_overlap: those, as a share of all of either.
    """

    identical: bool
    same_order: bool
    same_mechanism: bool
    shared: tuple[str, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    shared_steps: tuple[str, ...]
    step_overlap: float


def compare(first: Circuit, second: Circuit) -> Comparison:
    """Set two circuits side by side."""
    paths = [{path.where: str(path) for path in circuit.paths} for circuit in (first, second)]
    steps = [{(path.query, path.key) for path in circuit.paths} for circuit in (first, second)]
    every = steps[0] | steps[1]
    return Comparison(
        identical=paths[0].keys() == paths[1].keys(),
        same_order=order(first) == order(second),
        same_mechanism=mechanism(first) == mechanism(second),
        shared=tuple(paths[0][where] for where in paths[0] if where in paths[1]),
        only_first=tuple(paths[0][where] for where in paths[0] if where not in paths[1]),
        only_second=tuple(paths[1][where] for where in paths[1] if where not in paths[0]),
        shared_steps=tuple(f"{query} -> {key}" for query, key in sorted(steps[0] & steps[1])),
        step_overlap=len(steps[0] & steps[1]) / len(every) if every else 1.0,
    )


def order(circuit: Circuit) -> tuple[Step, ...]:
    """The steps with the layers in use numbered 1, 2, ...; which head does one, and how often, is forgotten."""
    layers = sorted({path.layer for path in circuit.paths})
    return tuple(sorted({(layers.index(path.layer) + 1, path.query, path.key) for path in circuit.paths}))


def mechanism(circuit: Circuit) -> tuple[Step, ...]:
    """The steps with their depth: 1 for those that need nothing before them.

    A step done again later counts once, where it is first done.
    """
    depth: dict[tuple[str, str], int] = {}
    for path in sorted(circuit.paths, key=lambda path: path.layer):
        step = (path.query, path.key)
        if step not in depth:
            before = [
                depth[earlier.query, earlier.key]
                for earlier in circuit.paths
                if earlier.layer < path.layer and earlier.query in step and (earlier.query, earlier.key) != step
            ]
            depth[step] = 1 + max(before, default=0)
    return tuple(sorted((number, query, key) for (query, key), number in depth.items()))


def strategy(circuit: Circuit) -> str:
    """`serial` if the query walks the chain alone, `doubling` if positions on the way jump too, `none` if no circuit.

    A jump is a path between two pairs; the query's own are left out.
    """
    if not circuit.found:
        return "none"
    hops, asker = circuit.hops, query_role(circuit.hops)
    for path in circuit.paths:
        query, key = role_number(path.query, hops), role_number(path.key, hops)
        if asker not in (query, key) and query // 2 != key // 2:
            return "doubling"
    return "serial"


def first_head_ties_pairs(circuit: Circuit) -> bool:
    """Whether the first layer in use ties second members to the first members of their pairs (C8)."""
    first = min((path.layer for path in circuit.paths), default=0)
    return any(_ties_pair(path, circuit.hops) for path in circuit.paths if path.layer == first)


def _ties_pair(path: CircuitPath, hops: int) -> bool:
    query, key = role_number(path.query, hops), role_number(path.key, hops)
    return query % 2 == 1 and key == query - 1


def census(circuits: Sequence[Circuit]) -> dict[str, Any]:
    """What many models learned: how many have a circuit, how many heads it uses, which mechanisms, how often."""
    found = [circuit for circuit in circuits if circuit.found]
    mechanisms = Counter(mechanism(circuit) for circuit in found)
    return {
        "models": len(circuits),
        "with_circuit": len(found),
        "certified": sum(circuit.certified for circuit in found),
        "heads": _counted(len(circuit.used_heads) for circuit in found),
        "layers": _counted(len({path.layer for path in circuit.paths}) for circuit in found),
        "paths": _counted(len(circuit.paths) for circuit in found),
        "strategies": _counted(strategy(circuit) for circuit in found),
        "first_head_ties_pairs": sum(first_head_ties_pairs(circuit) for circuit in found),
        "mechanisms": [
            {
                "count": count,
                "steps": [{"depth": depth, "query": query, "key": key} for depth, query, key in steps],
                "models": [circuit.model for circuit in found if mechanism(circuit) == steps],
            }
            for steps, count in sorted(mechanisms.items(), key=lambda item: (-item[1], item[0]))
        ],
    }


def _counted(values: Any) -> dict[str, int]:
    return {str(value): count for value, count in sorted(Counter(values).items())}
