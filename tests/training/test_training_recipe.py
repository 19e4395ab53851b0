"""Recipes as values: equal ones have the same hash, however their numbers were written; and the paper's."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from small_runs import ONE_HOP, TINIEST

from hopscope.emergence.history import STEPS_PER_EPOCH
from hopscope.errors import InputError
from hopscope.lab import Run
from hopscope.paper import recipes
from hopscope.training.execution import REFERENCE
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.run import RunFolder
from hopscope.training.trainer import train

WHOLE = {
    "learning_rate": 1, "decay_fraction": 0, "learned_below": 1, "head_dropout": 0, "weight_decay": 0,
    "beta1": 0, "beta2": 0, "clip": 1,
}  # fmt: skip


def setup(recipe: Recipe) -> Setup:
    return Setup("run", ONE_HOP, recipe, (0,))


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_number_is_a_float_where_there_are_floats(name):
    whole, exact = (replace(TINIEST, **{name: of(WHOLE[name])}) for of in (int, float))
    assert json.dumps(asdict(whole)) == json.dumps(asdict(exact))
    assert setup(whole).content_hash == setup(exact).content_hash
    assert isinstance(getattr(whole, name), float)


def test_numpys_numbers_become_pythons(tmp_path):
    """As `for seed in np.arange(2)` gives them."""
    given = Setup("run", ONE_HOP, replace(TINIEST, learning_rate=np.float32(0.5)), tuple(np.arange(2)))
    plain = Setup("run", ONE_HOP, replace(TINIEST, learning_rate=0.5), (0, 1))
    run = RunFolder.create(tmp_path / "run", given, replace(REFERENCE, threads=np.int32(1)))
    assert given.content_hash == plain.content_hash == run.hash
    assert run.record == RunFolder.create(tmp_path / "plain", plain, REFERENCE).record


def test_a_step_that_metrics_give_is_a_step(tmp_path):
    run = train(setup(replace(TINIEST, steps=1)), tmp_path / "run", execution=REFERENCE)
    (step,) = run.metrics.steps
    assert isinstance(step, np.int64)
    assert run.find_checkpoint(step) == run.find_checkpoint(1)
    assert Run(run.path)[0].at(step).step == 1
    assert len(run.metrics.every(1)) == 1
    with pytest.raises(InputError, match="steps must be a whole number of at least 1, got 0"):
        run.metrics.every(0)


def test_the_papers_recipes():
    """Sections 7.1, 8.1 and 9.1."""
    sweep, a, d = recipes.SWEEP, recipes.A.recipe, recipes.D.recipe
    assert (sweep.heads, sweep.d_model, sweep.steps, sweep.batch_size, sweep.examples) == (8, 128, 10_000, 512, 2**20)
    assert (a.layers, a.heads, a.d_model, a.steps, a.batch_size, a.examples) == (12, 1, 128, 24_000, 128, 2**18)
    assert (d.layers, d.heads, d.d_model, d.head_dim, d.mlp) == (24, 1, 512, 16, False)
    assert (d.steps, d.batch_size, d.examples, d.checkpoint_every) == (6_400, 256, 2**18, 80)
    assert d.steps // STEPS_PER_EPOCH == 800
    for recipe in (sweep, a, d):
        assert (recipe.learning_rate, recipe.weight_decay, recipe.final_steps) == (1e-3, 0.1, 100)
    assert [setup.seeds for setup in (recipes.A, recipes.B, recipes.C, recipes.D)] == [(0,), (1,), (2,), (0,)]
    assert [setup.problem.hops for setup in (recipes.A, recipes.B, recipes.C, recipes.D)] == [3, 3, 3, 4]
    assert recipes.A.recipe == recipes.B.recipe == recipes.C.recipe
