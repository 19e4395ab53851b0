"""Information along given attention paths, and no others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hopscope.errors import InputError
from hopscope.problem.roles import role_names, role_number
from hopscope.theory.paths import Path
from hopscope.theory.scene import Scene

Steps = list[list[tuple[int, int, Path]]]
"""By layer: who attends, to whom, and the path that says so."""


@dataclass(frozen=True)
class Followed:
    """What flowed.

    Attributes:
        history: holdings by layer, from 0, and position.
        refused: paths between positions that shared nothing by then (Assumption 1); they carried nothing.
        idle: paths that carried and brought nothing new.
    """

    history: tuple[tuple[int, ...], ...]
    refused: tuple[Path, ...]
    idle: tuple[Path, ...]


def by_layer(hops: int, paths: Iterable[Path]) -> Steps:
    """Sort the paths of a chain by layer, roles turned into positions.

    Raises:
        InputError: a layer below 1, or an unknown role.
    """
    number = {name: role for role, name in enumerate(role_names(hops))}
    ordered = sorted(paths)
    for path in ordered:
        if isinstance(path.layer, bool) or not isinstance(path.layer, int) or path.layer < 1:
            raise InputError(f"the layer of a path must be a whole number of at least 1, got {path.layer!r}")
        for role in (path.query, path.key):
            if role not in number:
                role_number(role, hops)  # its error names the roles there are
    steps: Steps = [[] for _ in range(ordered[-1].layer if ordered else 0)]
    for path in ordered:
        steps[path.layer - 1].append((number[path.query], number[path.key], path))
    return steps


def in_order(hops: int, paths: Iterable[Path]) -> tuple[Path, ...]:
    """The paths by layer, then by role."""
    number = {name: role for role, name in enumerate(role_names(hops))}
    return tuple(sorted(paths, key=lambda path: (path.layer, path.head, number[path.query], number[path.key])))


def follow(scene: Scene, steps: Steps, *, waive: bool = False) -> Followed:
    """Attend along the steps, all of a layer at once.

    Args:
        scene: the scene of one chain.
        steps: from `by_layer`.
        waive: let paths carry even where Assumption 1 forbids them.
    """
    history = [scene.holdings]
    refused: list[Path] = []
    idle: list[Path] = []
    for layer in steps:
        before, after = history[-1], list(history[-1])
        for query, key, path in layer:
            if not waive and not before[query] & before[key]:
                refused.append(path)
                continue
            if not before[key] & ~before[query]:
                idle.append(path)
            after[query] |= before[key]
        history.append(tuple(after))
    return Followed(tuple(history), tuple(refused), tuple(idle))


def arrives(scene: Scene, steps: Steps) -> bool:
    """Whether the asker holds the target after these steps."""
    return follow(scene, steps).history[-1][scene.asker] >> scene.target & 1 == 1
