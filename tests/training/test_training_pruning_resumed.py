"""A run whose heads go, stopped and continued: it has the heads that it had, whatever their weights are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from killing import contents
from small_runs import train_in_two, updates
from torch import Tensor

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training import trainer
from hopscope.training.data import Data
from hopscope.training.ensemble import Ensemble
from hopscope.training.execution import REFERENCE
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.run import RunFolder
from hopscope.training.trainer import train

PROBLEM = RetrievalProblem(hops=1, chains=1)
TINY = Recipe(
    layers=2, heads=2, d_model=16, steps=40, batch_size=8, log_every=5, final_steps=7, validation_size=8,
    examples=64, prune_every=5, learned_below=2.0, prune_cost=0.01, clip=1.0,
)  # fmt: skip
ENGINE = REFERENCE


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(trainer, "HELD_OUT", 8)


def _spoil(ensemble: Ensemble, model: int) -> None:
    with torch.no_grad():
        ensemble._parts[0]._parameters[0][model].fill_(float("inf"))


@pytest.fixture
def diverges_at_22(monkeypatch) -> None:
    """The first model, when it has lost heads."""
    plain = Ensemble.update

    def update(ensemble: Ensemble, *given: object) -> Tensor:
        if updates(ensemble) == 22:
            _spoil(ensemble, 0)
        return plain(ensemble, *given)

    monkeypatch.setattr(Ensemble, "update", update)


def heads(path: Path) -> list[list[float]]:
    return RunFolder(path).metrics.heads.tolist()


@pytest.mark.usefixtures("diverges_at_22")
@pytest.mark.slow
@pytest.mark.parametrize("seeds", [(1,), (1, 2)])
def test_a_model_that_diverges_has_no_other_heads_when_it_goes_on(seeds, monkeypatch, tmp_path):
    monkeypatch.setattr("hopscope.training.trainer._SECONDS_BETWEEN_STATES", 0.0)
    setup = Setup("run", PROBLEM, TINY, seeds)
    alone = train(setup, tmp_path / "alone", execution=ENGINE)
    assert heads(alone.path)[4][0] < 4
    assert alone.result.models[0].held_out_loss is None
    train_in_two(setup, tmp_path / "cut", 30, ENGINE)
    assert heads(tmp_path / "cut") == heads(alone.path)
    assert contents(tmp_path / "cut") == contents(alone.path)


@pytest.mark.parametrize("clip", [1.0, None])
def test_what_is_gone_is_no_nan(clip):
    """Else it would come back, and the other models' heads of that place with it."""
    recipe = replace(TINY, clip=clip)
    ensemble, data = Ensemble(PROBLEM, recipe, [1, 2], ENGINE), Data(PROBLEM, recipe, [1, 2])
    left = torch.ones(2, 2, 2, dtype=torch.bool)
    left[0, 0, 1] = left[0, 1, 0] = left[1, 1, 1] = False
    ensemble._parts[0].keep(left)
    _spoil(ensemble, 0)
    ensemble.update(data.training(0), [1e-2] * 2)
    weights = ensemble.state()
    for kind in ("", "exp_avg.", "exp_avg_sq."):
        for layer in range(2):
            rows = weights[f"{kind}blocks.{layer}.attention.out.weight"].view(2, 2, 8, 16)
            assert not rows[~left[:, layer]].any()
            assert rows[0][left[0, layer]].isnan().all()
            assert rows[1].isfinite().all()
