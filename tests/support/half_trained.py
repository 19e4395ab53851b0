"""A small run that was stopped in the middle."""

from __future__ import annotations

import pytest

from hopscope.lab import train
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.ensemble import Ensemble
from hopscope.training.execution import REFERENCE
from hopscope.training.recipe import Recipe
from hopscope.training.run import RunFolder

PROBLEM = RetrievalProblem(hops=1, chains=2)
TINY = Recipe(
    layers=1, heads=1, d_model=8, steps=12, batch_size=4, log_every=4, final_steps=1, validation_size=4,
    checkpoint_every=4,
)  # fmt: skip
ENGINE = REFERENCE
SHAPE = [
    "--layers", "1", "--heads", "1", "--d-model", "64", "--head-dim", "8", "--steps", "2", "--batch-size", "2",
    "--precision", "fp32", "--device", "cpu",
]  # fmt: skip
"""Options of `hopscope train` for another one."""


class Stopped(Exception):
    pass


def half(folder, monkeypatch, seed=0, calls=9, recipe=TINY):
    """A run that was stopped after its state at step 8."""
    monkeypatch.setattr("hopscope.training.trainer._SECONDS_BETWEEN_STATES", 0.0)
    with monkeypatch.context() as patch:
        plain_update, left = Ensemble.update, iter(range(calls))

        def update(self, batch, rate, scales):
            if next(left, None) is None:
                raise Stopped
            return plain_update(self, batch, rate, scales)

        patch.setattr(Ensemble, "update", update)
        with pytest.raises(Stopped):
            train(recipe, PROBLEM, folder, seeds=[seed], execution=ENGINE)
    assert RunFolder(folder).load_state()[0] == 8
    return folder
