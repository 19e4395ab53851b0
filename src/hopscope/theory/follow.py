"""Information along given attention paths, and no others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hopscope.errors import InputError
from hopscope.problem.roles import query_role
from hopscope.theory.path import AttentionPath
from hopscope.theory.scene import Scene

Steps = list[list[AttentionPath]]
"""Paths by layer."""


@dataclass(frozen=True)
class Flowed:
    """What flowed.

    Attributes:
        history: holdings by layer, from 0, and position.
        refused: paths between positions that shared nothing by then (Assumption 1); they carried nothing.
        idle: paths that carried and brought nothing new.
    """

    history: tuple[tuple[int, ...], ...]
    refused: tuple[AttentionPath, ...]
    idle: tuple[AttentionPath, ...]


def by_layer(hops: int, paths: Iterable[AttentionPath], roles: int | None = None) -> Steps:
    """Sort the paths of a chain by layer; it has 2D + 1 roles unless told otherwise.

    Raises:
        InputError: a layer below 0, or a role number that the chain does not have.
    """
    ordered, last = sorted(paths), query_role(hops) if roles is None else roles - 1
    for path in ordered:
        if path.layer < 0 or not all(0 <= role <= last for role in (path.query, path.key)):
            raise InputError(
                f"a path of a chain with {hops} hops has a layer from 0 on and roles 0 to {last}, got "
                f"layer {path.layer}, roles {path.query} and {path.key}"
            )
    steps: Steps = [[] for _ in range(ordered[-1].layer + 1 if ordered else 0)]
    for path in ordered:
        steps[path.layer].append(path)
    return steps


def follow(scene: Scene, steps: Steps, *, waive: bool = False) -> Flowed:
    """Attend along the steps, all of a layer at once.

    Args:
        scene: the scene of one chain.
        steps: from `by_layer`.
        waive: let paths carry even where Assumption 1 forbids them.
    """
    history = [scene.holdings]
    refused: list[AttentionPath] = []
    idle: list[AttentionPath] = []
    for layer in steps:
        before, after = history[-1], list(history[-1])
        for path in layer:
            own, other = before[path.query], before[path.key]
            if not waive and not own & other:
                refused.append(path)
                continue
            if not other & ~own:
                idle.append(path)
            after[path.query] |= other
        history.append(tuple(after))
    return Flowed(tuple(history), tuple(refused), tuple(idle))


def arrives(scene: Scene, steps: Steps) -> bool:
    """Whether the asker holds the target after these steps."""
    return follow(scene, steps).history[-1][scene.asker] >> scene.target & 1 == 1
