"""The flow of information along given attention paths, and no others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hopscope.errors import InputError
from hopscope.problem.paths import AttentionPath
from hopscope.theory.information_flow import tells
from hopscope.theory.scene import Scene

Steps = list[list[AttentionPath]]
"""Paths by layer."""


@dataclass(frozen=True)
class Flowed:
    """The result of following attention paths.

    Attributes:
        history: what every position held, by layer, from 0 (before the first), and position.
        refused: paths between positions that shared nothing by then (Assumption 1), or nothing that tells the key from
            its distractors; they carried nothing.
        idle: paths that carried, but nothing new.
    """

    history: tuple[tuple[int, ...], ...]
    refused: tuple[AttentionPath, ...]
    idle: tuple[AttentionPath, ...]


def by_layer(paths: Iterable[AttentionPath], roles: int) -> Steps:
    """Sort the paths of a chain with `roles` roles by layer.

    Raises:
        InputError: a layer is below 0, or the chain does not have a role.
    """
    ordered, last = sorted(paths), roles - 1
    for path in ordered:
        if path.layer < 0 or not all(0 <= role <= last for role in (path.query, path.key)):
            raise InputError(
                f"a path of a chain with {roles} roles has a layer from 0 on and roles 0 to {last}, got "
                f"layer {path.layer}, roles {path.query} and {path.key}"
            )
    steps: Steps = [[] for _ in range(ordered[-1].layer + 1 if ordered else 0)]
    for path in ordered:
        steps[path.layer].append(path)
    return steps


def follow(scene: Scene, steps: Steps, *, waive: bool = False) -> Flowed:
    """Follow the paths, all of a layer at once.

    A head does the same at every position of a role: what a path does in a fact, it also does in the distractors beside
    it, where Assumption 1 allows it. So a look-up by one key of two, which would find the distractors too, does not
    count.

    Args:
        scene: the scene of one chain.
        steps: the paths as `by_layer` sorts them.
        waive: let paths carry even where Assumption 1 forbids them.
    """
    history = [scene.holdings]
    refused: list[AttentionPath] = []
    idle: list[AttentionPath] = []
    for layer in steps:
        before, after = history[-1], list(history[-1])
        for path in layer:
            for row in scene.distractors:
                query, key = row[path.query], row[path.key] if row[path.key] >= 0 else path.key
                if query >= 0 and tells(scene, history, query, key):
                    after[query] |= before[key]
            if not waive and not tells(scene, history, path.query, path.key):
                refused.append(path)
                continue
            if not before[path.key] & ~before[path.query]:
                idle.append(path)
            after[path.query] |= before[path.key]
        history.append(tuple(after))
    return Flowed(tuple(history), tuple(refused), tuple(idle))


def arrives(scene: Scene, steps: Steps) -> bool:
    """Whether the asker holds the target after these steps."""
    return follow(scene, steps).history[-1][scene.asker] >> scene.target & 1 == 1
