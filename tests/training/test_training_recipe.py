"""Recipes as values, with the same hash however they were written; the paper's; and which examples each step sees."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_runs import ONE_HOP, TINIEST

from hopscope.emergence.history import STEPS_PER_EPOCH
from hopscope.errors import InputError
from hopscope.lab.run import Run
from hopscope.paper import recipes
from hopscope.training.data import Data, held_out
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


TINY = Recipe(layers=1, heads=1, d_model=8, steps=10, batch_size=6, examples=20, validation_size=5)


def rows(inputs: torch.Tensor) -> list[tuple[float, ...]]:
    return [tuple(sequence.flatten().tolist()) for sequence in inputs]


@given(size=st.integers(1, 50), batch=st.integers(1, 60), seed=st.integers(0, 99))
def test_every_example_comes_once_a_pass(size, batch, seed):
    """Whatever the sizes, also where a batch straddles passes or holds several."""
    data = Data(ONE_HOP, replace(TINY, examples=size, batch_size=batch), [seed])
    steps = -(-3 * size // batch)
    seen = [row for step in range(steps) for row in rows(data.training(step).inputs[0])]
    for pass_ in range(3):
        assert set(Counter(seen[pass_ * size : (pass_ + 1) * size]).values()) == {1}
    assert len(set(seen)) == size


@pytest.mark.parametrize("size", [4096, 4095])
def test_later_passes_group_the_examples_differently(size):
    """Whatever divides the size: 64 sequences that came together in a pass were not of a few batches of another."""
    found = []
    for seed in range(10):
        data = Data(ONE_HOP, replace(TINY, examples=size), [seed])
        first, second, third = (data._shuffled(torch.arange(n * size, (n + 1) * size), size)[0] for n in range(3))
        assert not torch.equal(second, third)
        batch = torch.empty(size, dtype=torch.int64)
        batch[first] = torch.arange(size) // 64
        found += [len(batch[part].unique()) for part in third.split(64)[:-1]]
    assert sum(found) / len(found) > 25  # 40 of 64 in an order without any rule
    assert min(found) > 10


def test_endless_data_never_repeats():
    data = Data(ONE_HOP, replace(TINY, examples=None), [3])
    seen = [row for step in range(50) for row in rows(data.training(step).inputs[0])]
    assert len(set(seen)) == 300


@pytest.mark.parametrize("examples", [20, None])
def test_a_model_sees_the_same_alone_and_among_others(examples):
    recipe = replace(TINY, examples=examples)
    alone, among = Data(ONE_HOP, recipe, [5]), Data(ONE_HOP, recipe, [4, 5, 6])
    for step in (0, 3, 1000):
        for kind in ("training", "validation"):
            one, many = getattr(alone, kind)(step), getattr(among, kind)(step)
            assert torch.equal(one.inputs[0], many.inputs[1])
            assert torch.equal(one.targets[0], many.targets[1])
            assert not torch.equal(many.inputs[0], many.inputs[1])


def test_validation_and_held_out_sequences_are_never_trained_on():
    data = Data(ONE_HOP, TINY, [5])
    trained = {row for step in range(30) for row in rows(data.training(step).inputs[0])}
    fresh = [row for step in range(30) for row in rows(data.validation(step).inputs[0])]
    kept = rows(held_out(ONE_HOP, 50, seed=5).inputs)
    pruned = {row for step in range(30) for row in rows(data.pruning(step).inputs[0])}
    assert len(set(fresh)) == 150
    assert not trained & set(fresh)
    assert not pruned & (trained | set(fresh) | set(kept))
    assert not (trained | set(fresh)) & set(kept)
    assert rows(held_out(ONE_HOP, 50, seed=5).inputs) == kept
