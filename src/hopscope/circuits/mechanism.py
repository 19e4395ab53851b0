"""The mechanism of one circuit: its steps, wherever they stand, and what they look up.

A step is a path without its layer and head. In a mechanism each layer is replaced by the number of steps that must come
before: a step must come after those that bring something to one of its two ends. So a step done in layer 3 or in layer
6, once or by three heads, is one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hopscope.circuits.record.circuit import Circuit
from hopscope.problem.paths import NamedPath
from hopscope.problem.roles import end_role, first_member, link_role, second_member


class StepAt(NamedTuple):
    """A path without its head.

    Attributes:
        depth: the number of its layer among those in use, or of the steps that end in it, from 1.
        query: the role that attends.
        key: the role attended to.
    """

    depth: int
    query: str
    key: str


def order(circuit: Circuit) -> tuple[StepAt, ...]:
    """The steps with the layers in use numbered 1, 2, ...; which heads do a step, and how many, is ignored."""
    named = _names(circuit)
    layers = sorted({layer for layer, *_ in named})
    return tuple(sorted({StepAt(layers.index(layer) + 1, query, key) for layer, _, query, key in named}))


def mechanism(circuit: Circuit) -> tuple[StepAt, ...]:
    """The steps with their depth, which is 1 for steps that need nothing before them.

    A step that is done again later counts once, where it is first done.
    """
    depth: dict[tuple[str, str], int] = {}
    named = _names(circuit)
    for layer, _, *step in sorted(named, key=lambda path: path[0]):
        query, key = step
        if (query, key) not in depth:
            before = [
                depth[earlier, other]
                for lower, _, earlier, other in named
                if lower < layer and earlier in step and (earlier, other) != (query, key)
            ]
            depth[query, key] = 1 + max(before, default=0)
    return tuple(sorted(StepAt(number, query, key) for (query, key), number in depth.items()))


def steps_beyond_first(paths: Sequence[NamedPath]) -> set[tuple[str, str]]:
    """Query and key role of the paths beyond the first useful layer, in whatever layer and head (C9)."""
    first = min((layer for layer, *_ in paths), default=0)
    return {(query, key) for layer, _, query, key in paths if layer > first}


def first_head_ties_pairs(circuit: Circuit) -> bool:
    """Whether the first layer in use ties second members of pairs to first members, that is values to keys (C8)."""
    fact_of = circuit.problem.fact_of
    paths = [one.path for one in circuit.paths]
    first = min((path.layer for path in paths), default=0)
    return any(
        path.key < path.query and fact_of(path.query) == fact_of(path.key) > 0
        for path in paths
        if path.layer == first and path.query < len(circuit.problem.roles)
    )


def kinds_looked_up(circuit: Circuit) -> dict[str, int]:
    """How many paths into a line from outside it land on its name, link, value or end; kinds with none are left out."""
    hops, fact_of = circuit.hops, circuit.problem.fact_of
    counts = {"name": 0, "link": 0, "value": 0, "end": 0}
    for path in (one.path for one in circuit.paths):
        pair = fact_of(path.key)
        if 0 < pair != fact_of(path.query):
            kinds = {
                first_member(pair): "name", link_role(pair, hops): "link", second_member(pair): "value",
                end_role(pair, hops): "end",
            }  # fmt: skip
            counts[kinds[path.key]] += 1
    return {kind: count for kind, count in counts.items() if count}


def _names(circuit: Circuit) -> list[NamedPath]:
    """The paths by name: layer and head from 1, roles by name."""
    return [one.path.names(circuit.roles) for one in circuit.paths]
