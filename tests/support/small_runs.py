"""Runs that train in a moment, whole or stopped in the middle, and functions that tests send to worker processes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch
from hopscope.training.ensemble import Ensemble
from hopscope.training.execution import REFERENCE, Execution
from hopscope.training.optimiser import TrainingHooks
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.run import RunFolder
from hopscope.training.trainer import Progress, train

PROBLEM = RetrievalProblem(hops=2)
TINY = Recipe(
    layers=2, heads=2, d_model=16, steps=40, batch_size=8, log_every=5, final_steps=7, validation_size=8,
    examples=64, checkpoint_every=20, learning_rate=3e-3, warmup=5, schedule="cosine", clip=0.3,
)  # fmt: skip
"""All that recipes have: a schedule, clipping, an end, checkpoints."""
ONE_HOP = RetrievalProblem(hops=1, chains=2)
TINIEST = Recipe(
    layers=1, heads=1, d_model=8, steps=12, batch_size=4, log_every=4, final_steps=1, validation_size=4,
    checkpoint_every=4, mlp=False,
)  # fmt: skip
OPTIONS = [
    "--layers", "1", "--heads", "1", "--d-model", "64", "--head-dim", "8", "--steps", "2", "--batch-size", "2",
    "--precision", "fp32", "--device", "cpu",
]  # fmt: skip
"""Options of `hopscope train` for a run of two steps."""


class Weighted(TrainingHooks):
    """Gives two hops other weights, and scales what is trained on."""

    def change(self, batch: Batch) -> Batch:
        return replace(batch, inputs=batch.inputs * 0.9)

    def weigh(self, losses: Tensor) -> Tensor:
        return losses * torch.tensor([0.2, 3.0], device=losses.device)


class Stopped(Exception):
    """A run is stopped by its test."""


def one_seed_each(seeds: range = range(3), folder: str = "condition", recipe: Recipe = TINIEST) -> list[Setup]:
    """Setups that differ by their seed alone."""
    return [Setup(f"{folder}/seed-{seed}", ONE_HOP, recipe, (seed,)) for seed in seeds]


def half_trained(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run that was stopped after its state at step 8."""
    monkeypatch.setattr("hopscope.training.trainer._SECONDS_BETWEEN_STATES", 0.0)
    with monkeypatch.context() as patch:
        update, left = Ensemble.update, iter(range(9))

        def update_or_stop(self, batch, rate, scales):
            if next(left, None) is None:
                raise Stopped
            return update(self, batch, rate, scales)

        patch.setattr(Ensemble, "update", update_or_stop)
        with pytest.raises(Stopped):
            train(Setup(folder.name, ONE_HOP, TINIEST), folder, execution=REFERENCE)
    assert RunFolder(folder).load_state()[0] == 8
    return folder


def train_in_two(setup: Setup, folder: Path, cut: int, execution: Execution) -> None:
    """Stop at the first row of metrics from step `cut` on, and train on from what is on disk."""

    def stop(progress: Progress) -> None:
        if progress.step >= cut:
            raise Stopped

    with pytest.raises(Stopped):
        train(setup, folder, execution=execution, progress=stop)
    train(setup, folder, execution=execution)


def updates(ensemble: Ensemble) -> int:
    """How many updates an ensemble has had, by its optimiser's own count."""
    return int(ensemble._parts[0][1]._updates)


def flushes() -> bool:
    """Whether this process rounds the smallest numbers to zero."""
    return bool(torch.tensor([1e-40]) * 1 == 0)
