"""The rivals of the race compute what ours does, so that times can be compared."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hopscope.model.initial_weights import initialise
from hopscope.model.transformer import Transformer
from hopscope.paper import recipes
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import sample
from hopscope.training.recipe import Setup

RACE = Path(__file__).parents[1] / "race"


@pytest.mark.parametrize("mlp", [True, False])
def test_the_plain_rival_and_hugging_faces(monkeypatch: pytest.MonkeyPatch, mlp: bool) -> None:
    monkeypatch.syspath_prepend(str(RACE))
    for name in ("trainers", "many_models"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    from many_models import FaceGPT2
    from trainers import PlainGPT2

    problem = RetrievalProblem(hops=2)
    recipe = replace(recipes.SWEEP, layers=2, d_model=32, heads=4, mlp=mlp)
    ours = Transformer(recipe.architecture(problem))
    initialise(ours, [0])
    plain = PlainGPT2(problem, recipe)
    plain.take_weights(ours.state_dict())
    inputs = sample(problem, 5, torch.Generator().manual_seed(0)).inputs
    with torch.no_grad():
        expected = ours(inputs[None])[0]
        torch.testing.assert_close(plain(inputs), expected, rtol=1e-4, atol=1e-5)
        if mlp:
            face = FaceGPT2(plain, recipe, problem.sequence_length)
            torch.testing.assert_close(face(inputs), expected, rtol=1e-4, atol=1e-5)


def test_updates_are_timed_by_every_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(RACE))
    monkeypatch.delitem(sys.modules, "updates", raising=False)
    from updates import measure, ways

    recipe = replace(recipes.PLAIN, layers=1, batch_size=4)
    setup = Setup("timed", RetrievalProblem(hops=1), recipe, (0, 1))
    engines = dict(ways(setup, "cpu"))
    assert engines["by torch alone"].kernels is False
    assert len({engine.precision for engine in engines.values()}) == 1
    for engine in engines.values():
        times = measure(setup, engine, updates=2)
        assert min(times.values()) >= 0
