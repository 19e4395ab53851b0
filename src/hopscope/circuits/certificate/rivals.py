"""Random circuits to compare a circuit with: of its size, and made of rows that attend to something."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hopscope.problem.paths import AttentionPath, HeadRow
from hopscope.theory.follow import Steps, arrives, by_layer
from hopscope.theory.scene import Scene

RowSet = frozenset[HeadRow]

_TRIES = 6
"""How many attempts are made for each draw asked for: where few distinct circuits exist, all are soon found."""


def random_rows(pool: Sequence[HeadRow], size: int, generator: torch.Generator) -> RowSet:
    """Some `size` rows of a pool, drawn at random."""
    return frozenset(pool[number] for number in torch.randperm(len(pool), generator=generator)[:size].tolist())


def random_deliverable(
    scene: Scene, pool: Sequence[AttentionPath], size: int, generator: torch.Generator
) -> tuple[AttentionPath, ...] | None:
    """Random paths of a pool that carry x{D} to the query by theory, none of which can be done without.

    Paths are drawn until they deliver, and taken away in random order while the rest still delivers. None if the pool
    does not deliver, if more than `size` rows come out, or if `size` is 0.
    """
    if not size:
        return None
    shuffled = [pool[number] for number in torch.randperm(len(pool), generator=generator).tolist()]
    count = 2 * size
    while not arrives(scene, _steps(scene, shuffled[:count])):
        if count >= len(shuffled):
            return None
        count *= 2
    kept = shuffled[:count]
    for path in shuffled[:count]:
        rest = [other for other in kept if other != path]
        kept = rest if arrives(scene, _steps(scene, rest)) else kept
    return tuple(sorted(kept)) if len({path.row for path in kept}) <= size else None


def rivals(
    scene: Scene, pool: Sequence[AttentionPath], own: RowSet, draws: int, generator: torch.Generator
) -> list[RowSet]:
    """Distinct random circuits of the size of `own`: about half are any heavy rows, half deliver by theory.

    A row is heavy if it attends to some role. Circuits that deliver are filled up to size with other heavy rows. There
    are fewer than `draws` if no more are found, and none for an empty circuit.

    Args:
        scene: what every role of a chain knows at the start.
        pool: a path for every role that a row attends to, for every row that attends to any.
        own: the circuit's rows.
        draws: how many circuits are wanted.
        generator: the random generator that draws them.
    """
    heavy, size = sorted({path.row for path in pool} | own), len(own)
    found: dict[RowSet, None] = {}
    for attempt in range(_TRIES * draws if size else 0):
        drawn = random_rows(heavy, size, generator)
        if attempt % 2:
            paths = random_deliverable(scene, pool, size, generator)
            if paths is None:
                continue
            chosen = frozenset(path.row for path in paths)
            rest = [row for row in heavy if row not in chosen]
            drawn = chosen | random_rows(rest, size - len(chosen), generator)
        if drawn != own:
            found[drawn] = None
        if len(found) == draws:
            break
    return list(found)


def _steps(scene: Scene, paths: Sequence[AttentionPath]) -> Steps:
    return by_layer(paths, scene.roles)
