"""Two hops, and a recipe of a moment that has what recipes have: a schedule, clipping, an end, checkpoints."""

from __future__ import annotations

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.execution import REFERENCE
from hopscope.training.recipe import Recipe

PROBLEM = RetrievalProblem(hops=2)
TINY = Recipe(
    layers=2, heads=2, d_model=16, steps=40, batch_size=8, log_every=5, final_steps=7, validation_size=8,
    examples=64, checkpoint_every=20, learning_rate=3e-3, warmup=5, schedule="cosine", clip=0.3,
)  # fmt: skip
ENGINE = REFERENCE
