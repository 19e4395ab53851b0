"""Which examples each step sees."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.data import Data, held_out
from hopscope.training.recipe import Recipe

PROBLEM = RetrievalProblem(hops=1, chains=2)
TINY = Recipe(layers=1, heads=1, d_model=8, steps=10, batch_size=6, examples=20, validation_size=5)


def rows(inputs: torch.Tensor) -> list[tuple[float, ...]]:
    return [tuple(sequence.flatten().tolist()) for sequence in inputs]


@given(size=st.integers(1, 50), batch=st.integers(1, 60), seed=st.integers(0, 99))
def test_every_example_comes_once_a_pass(size, batch, seed):
    """Whatever the sizes, also where a batch straddles passes or holds several."""
    data = Data(PROBLEM, replace(TINY, examples=size, batch_size=batch), [seed])
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
        data = Data(PROBLEM, replace(TINY, examples=size), [seed])
        first, third = (data._shuffled(torch.arange(n * size, (n + 1) * size), size)[0] for n in (0, 2))
        batch = torch.empty(size, dtype=torch.int64)
        batch[first] = torch.arange(size) // 64
        found += [len(batch[part].unique()) for part in third.split(64)[:-1]]
    assert sum(found) / len(found) > 25  # 40 of 64 in an order without any rule
    assert min(found) > 10


def test_endless_data_never_repeats():
    data = Data(PROBLEM, replace(TINY, examples=None), [3])
    seen = [row for step in range(50) for row in rows(data.training(step).inputs[0])]
    assert len(set(seen)) == 300


@pytest.mark.parametrize("examples", [20, None])
def test_a_model_sees_the_same_alone_and_among_others(examples):
    recipe = replace(TINY, examples=examples)
    alone, among = Data(PROBLEM, recipe, [5]), Data(PROBLEM, recipe, [4, 5, 6])
    for step in (0, 3, 1000):
        for kind in ("training", "validation"):
            one, many = getattr(alone, kind)(step), getattr(among, kind)(step)
            assert torch.equal(one.inputs[0], many.inputs[1])
            assert torch.equal(one.targets[0], many.targets[1])
            assert not torch.equal(many.inputs[0], many.inputs[1])


def test_validation_and_held_out_sequences_are_never_trained_on():
    data = Data(PROBLEM, TINY, [5])
    trained = {row for step in range(30) for row in rows(data.training(step).inputs[0])}
    fresh = [row for step in range(30) for row in rows(data.validation(step).inputs[0])]
    kept = rows(held_out(PROBLEM, 50, seed=5).inputs)
    assert len(set(fresh)) == 150
    assert not trained & set(fresh)
    assert not (trained | set(fresh)) & set(kept)
    assert rows(held_out(PROBLEM, 50, seed=5).inputs) == kept
