"""Small runs that differ by their seeds alone."""

from __future__ import annotations

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.recipe import Recipe, Setup

PROBLEM = RetrievalProblem(hops=1, chains=2)
RECIPE = Recipe(
    layers=1, heads=1, d_model=8, steps=12, batch_size=4, log_every=4, final_steps=1, validation_size=4,
    checkpoint_every=4, mlp=False,
)  # fmt: skip


def runs(seeds: range = range(3), arm: str = "arm", recipe: Recipe = RECIPE) -> list[Setup]:
    return [Setup(f"{arm}/seed-{seed}", PROBLEM, recipe, (seed,)) for seed in seeds]
