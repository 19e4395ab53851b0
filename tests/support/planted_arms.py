"""Arms with planted times, for judges and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hopscope import Recipe, Setup
from hopscope.paper.recipes import LAPTOP
from hopscope.problem.retrieval import RetrievalProblem
from studies.tools.arms import ArmLearned

Times = Sequence[Sequence[int | None]]

THREE = RetrievalProblem(hops=3)
MIXED: Times = ((100, 200, 300), (40, 500, 900), (60, 80, 80), (20, None, None))
"""Four seeds, the last of which learned one hop."""


def arm(
    name: str,
    problem: RetrievalProblem,
    learned: Times,
    missing: int = 0,
    recipe: Recipe = LAPTOP,
    **changes: Any,
) -> ArmLearned:
    """An arm whose seeds learned the hops asked for at these steps, `missing` of whose seeds are not finished."""
    seeds = tuple(range(len(learned) + missing))
    setup = Setup(name, problem, replace(recipe, **changes), seeds or (0,))
    return ArmLearned.of(setup, seeds[: len(learned)], tuple(tuple(one) for one in learned))


def learns(hops: int, seeds: int, upto: int | None = None) -> list[list[int | None]]:
    """So many seeds that learn the first hops, one after the other, and no others."""
    upto = hops if upto is None else upto
    return [[100 * hop + seed if hop <= upto else None for hop in range(1, hops + 1)] for seed in range(seeds)]


ARM = arm("3-layers", THREE, MIXED, layers=3, steps=1000)
