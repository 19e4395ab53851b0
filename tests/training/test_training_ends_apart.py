"""Models that come to their end before their ensemble does: what is told of one is told of its own length."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hopscope.emergence.config import EmergenceConfig
from hopscope.emergence.track import follow
from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import first_member, second_member
from hopscope.training import trainer
from hopscope.training.execution import REFERENCE
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.trainer import train

PROBLEM = RetrievalProblem(hops=2, chains=1)
RECIPE = Recipe(
    layers=2, heads=2, d_model=16, steps=60, batch_size=16, log_every=5, final_steps=9, validation_size=8, mlp=False,
    examples=64, learning_rate=1e-2, schedule="decay-when-learned", learned_below=1.0, decay_fraction=0.25,
    checkpoint_every=30,
)  # fmt: skip


def test_emergence_is_of_the_model_s_own_length(monkeypatch, tmp_path):
    monkeypatch.setattr(trainer, "HELD_OUT", 8)
    run = train(Setup("run", PROBLEM, RECIPE, (1, 2)), tmp_path / "run", execution=REFERENCE)
    ends = [run.schedule.of_model(model).end for model in range(2)]
    assert len({*ends}) > 1
    paths = [AttentionPath(0, 0, second_member(1), first_member(1))]
    told = [follow(run, paths, number, EmergenceConfig(sequences=4))[0].total_steps for number in range(2)]
    assert told == ends


@pytest.mark.parametrize("steps", [30, 60])
def test_a_model_alone_has_the_length_of_its_run(steps, monkeypatch, tmp_path):
    monkeypatch.setattr(trainer, "HELD_OUT", 8)
    recipe = replace(RECIPE, steps=steps, schedule="constant")
    run = train(Setup("run", PROBLEM, recipe, (1,)), tmp_path / "run", execution=REFERENCE)
    paths = [AttentionPath(0, 0, second_member(1), first_member(1))]
    assert follow(run, paths, 0, EmergenceConfig(sequences=4))[0].total_steps == run.result.steps == steps
