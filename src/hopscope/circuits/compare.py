"""Compares circuits: are they the same circuit, the same up to layer numbers, or the same mechanism?

Two circuits have the same mechanism if their paths are the same once each layer is replaced by the number of steps that
must come before: a path must come after those that bring something to one of its two ends. So a step done in layer 3
or in layer 6, once or by three heads, is one step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from hopscope.circuits.certificate.part import Sense
from hopscope.circuits.record import Circuit
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import end_role, first_member, link_role, second_member
from hopscope.theory.depth import minimum_one_head
from hopscope.theory.follow import by_layer, follow
from hopscope.theory.path import AttentionPath, NamedPath
from hopscope.theory.text_scene import text_scene

StepAt = tuple[int, str, str]
"""A path without its head: depth or layer, query role and key role."""


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


def compare(first: Circuit, second: Circuit) -> Comparison:
    """Compare two circuits."""
    mine, theirs = ([one.path for one in circuit.paths] for circuit in (first, second))
    steps = [{(query, key) for *_, query, key in _names(circuit)} for circuit in (first, second)]
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


def order(circuit: Circuit) -> tuple[StepAt, ...]:
    """The steps with the layers in use numbered 1, 2, ...; which heads do a step, and how many, is ignored."""
    named = _names(circuit)
    layers = sorted({layer for layer, *_ in named})
    return tuple(sorted({(layers.index(layer) + 1, query, key) for layer, _, query, key in named}))


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
    return tuple(sorted((number, query, key) for (query, key), number in depth.items()))


def steps_beyond_first(paths: Sequence[NamedPath]) -> set[tuple[str, str]]:
    """Query and key role of the paths beyond the first useful layer, in whatever layer and head (C9)."""
    first = min((layer for layer, *_ in paths), default=0)
    return {(query, key) for layer, _, query, key in paths if layer > first}


def overlap(one: set[Any], other: set[Any]) -> float:
    """What both sets have in common, as a share of all that either has; 1 where both are empty."""
    return len(one & other) / len(one | other) if one | other else 1.0


Strategy = Literal["serial", "line by line", "doubling", "none"]
"""How an answer comes about, as `strategy` tells them apart."""


def strategy(circuit: Circuit) -> Strategy:
    """How an answer comes about. A jump is a path between two pairs, or facts; paths from or to the query do not count.

    `serial`: the query walks the chain alone, and nothing jumps. `line by line`: in a chain, some pair jumps to its
    neighbour after that neighbour has jumped itself, the two then hold one pair more than the longer of them held, and
    the circuit has more layers than doubling takes in any order (Theorem 4). `doubling`: pairs jump, but not so; those
    that have jumped are read from further away, so that one look-up covers several hops. `none`: there is no circuit.
    """
    if not circuit.found:
        return "none"
    problem, paths = circuit.problem, [one.path for one in circuit.paths]
    if not (jumps := [path for path in paths if 0 < problem.fact_of(path.query) != problem.fact_of(path.key) > 0]):
        return "serial"
    if problem.graph != "chain" or len({path.layer for path in paths}) <= minimum_one_head(problem.hops):
        return "doubling"
    return "line by line" if _adds_one_pair(problem, paths, jumps) else "doubling"


def _adds_one_pair(problem: RetrievalProblem, paths: list[AttentionPath], jumps: list[AttentionPath]) -> bool:
    """Whether a jump to a neighbour that has jumped makes the longer of what the two hold longer by one pair alone."""
    scene = text_scene(problem)  # its roles begin with those of vectors
    history = follow(scene, by_layer(paths, scene.roles), waive=True).history

    def held(layer: int, role: int) -> set[str]:
        pair = problem.fact_of(role)
        known = {piece for piece in scene.names(history[layer][role]) if piece.startswith("x")}
        return known | {f"x{pair - 1}", f"x{pair}"}

    for layer, _, query, key in jumps:
        mine, theirs = held(layer, query), held(layer, key)
        beside = abs(problem.fact_of(query) - problem.fact_of(key)) == 1
        if beside and len(theirs) > 2 and len(mine | theirs) == max(len(mine), len(theirs)) + 1:
            return True
    return False


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


def _names(circuit: Circuit) -> list[NamedPath]:
    """The paths by name: layer and head from 1, roles by name."""
    return [one.path.names(circuit.roles) for one in circuit.paths]


def census(circuits: Sequence[Circuit]) -> dict[str, Any]:
    """What many models learned: how many have a circuit, how large it is, which mechanisms occur and how often."""
    found = [circuit for circuit in circuits if circuit.found]
    mechanisms = Counter(mechanism(circuit) for circuit in found)
    return {
        "models": len(circuits),
        "with_circuit": len(found),
        "certified": {sense: sum(sense in circuit.certified for circuit in circuits) for sense in get_args(Sense)},
        "heads": _counted(len(circuit.used_heads) for circuit in found),
        "layers": _counted(len({one.path.layer for one in circuit.paths}) for circuit in found),
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
