"""Nothing of an update lies elsewhere than its engine's device, seen without one: on torch's device without memory.

Operations on tensors of two devices fail there as they do on a GPU. What it cannot do is give numbers back, so that
autocast, AdamW's own step and reading losses are left out.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training import adamw
from hopscope.training.data import Data
from hopscope.training.ensemble import Ensemble
from hopscope.training.execution import REFERENCE
from hopscope.training.head_dropout import head_scales
from hopscope.training.recipe import Recipe

ELSEWHERE = "meta"
PROBLEM = RetrievalProblem(hops=2)
RECIPE = Recipe(
    layers=2, heads=2, d_model=16, steps=8, batch_size=4, examples=None, clip=1.0, head_dropout=0.5, prune_every=4,
    hop_weights=(1.0, 0.5),
)  # fmt: skip
ENGINE = replace(REFERENCE, device=ELSEWHERE)


@pytest.fixture(autouse=True)
def _without_numbers(monkeypatch):
    monkeypatch.setattr(torch, "autocast", lambda *given, **named: nullcontext())
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *given: False)
    monkeypatch.setattr(adamw, "step", lambda *given: None)


@pytest.mark.parametrize("seeds", [(1,), (1, 2, 3)])
def test_an_update(seeds):
    ensemble, data = Ensemble(PROBLEM, RECIPE, seeds, ENGINE), Data(PROBLEM, RECIPE, seeds, ELSEWHERE)
    rates = [1e-3, 0.0, 1e-3][: len(seeds)]
    scales = head_scales(list(seeds), 0, RECIPE.layers, RECIPE.heads, 0.5)
    for how in (None, scales):
        losses = ensemble.update(data.training(0), rates, how)
        assert (losses.device.type, losses.shape) == (ELSEWHERE, (len(seeds), 2))
    assert ensemble.evaluate(data.validation(0)).device.type == ELSEWHERE
    assert {tensor.device.type for tensor in ensemble.state().values()} == {ELSEWHERE}


def test_what_lies_elsewhere_is_seen():
    """The control: the same with a batch from another device."""
    ensemble, data = Ensemble(PROBLEM, RECIPE, (1,), ENGINE), Data(PROBLEM, RECIPE, (1,), "cpu")
    with pytest.raises(RuntimeError, match="device"):
        ensemble.update(data.training(0), [1e-3])
