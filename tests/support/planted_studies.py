"""Conditions with planted times of learning, and circuits of planted models, for the judges and figures of studies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hopscope import Recipe, Setup
from hopscope.paper.recipes import LAPTOP
from hopscope.problem.retrieval import RetrievalProblem
from studies.tools.circuits import CircuitSummary, NamedPath
from studies.tools.conditions import Condition

Times = Sequence[Sequence[int | None]]
NamedPaths = tuple[NamedPath, ...]

THREE = RetrievalProblem(hops=3)
MIXED: Times = ((100, 200, 300), (40, 500, 900), (60, 80, 80), (20, None, None))
"""Four seeds, the last of which learned one hop."""


def condition(
    name: str, problem: RetrievalProblem, learned: Times, missing: int = 0, recipe: Recipe = LAPTOP, **changes: Any
) -> Condition:
    """A condition whose seeds learned the target hops at these steps, `missing` of whose seeds are not finished."""
    seeds = tuple(range(len(learned) + missing))
    setup = Setup(name, problem, replace(recipe, **changes), seeds or (0,))
    return Condition.of(setup, seeds[: len(learned)], tuple(map(tuple, learned)))


def learns(hops: int, seeds: int, upto: int | None = None) -> list[list[int | None]]:
    """So many seeds that learn the first hops, one after the other, and no others."""
    upto = hops if upto is None else upto
    return [[100 * hop + seed if hop <= upto else None for hop in range(1, hops + 1)] for seed in range(seeds)]


CONDITION = condition("3-layers", THREE, MIXED, layers=3, steps=1000)

TIES: NamedPaths = ((1, 1, ">x1", "x0>"), (1, 1, ">x2", "x1>"), (1, 1, ">x3", "x2>"))
SERIAL: NamedPaths = (*TIES, (2, 1, "x0?", ">x1"), (3, 1, "x0?", ">x2"), (4, 1, "x0?", ">x3"))
DOUBLING: NamedPaths = (*TIES, (2, 1, "x0?", ">x1"), (2, 2, ">x3", ">x2"), (3, 1, "x0?", ">x3"))


def summary(
    paths: Sequence[NamedPath],
    seed: int = 0,
    again: Sequence[Sequence[NamedPath]] = (),
    imposed: Sequence[NamedPath] = (),
    strategy: str = "doubling",
    **changes: object,
) -> CircuitSummary:
    """A model with that circuit."""
    known = {"model": f"4-layers/seed-{seed:03d}", "layers": 4, "step": None, "hops": 3, "loss": 0.01, "delivers": True}
    known |= {"certified": ()} | changes
    ends = tuple(map(tuple, again))
    return CircuitSummary(seed=seed, strategy=strategy, paths=tuple(paths), again=ends, imposed=tuple(imposed), **known)
