"""Heads left out of updates at random: which, until when, and that an update is that of the model without them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from killing import contents
from small_runs import train_in_two, updates
from torch import Tensor
from torch.func import functional_call

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.data import Data, squared_errors
from hopscope.training.ensemble import Ensemble
from hopscope.training.execution import REFERENCE
from hopscope.training.metrics import below
from hopscope.training.pruning import head_scales
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.schedule import Milestones, Schedule
from hopscope.training.trainer import train

PROBLEM = RetrievalProblem(hops=2)
TINY = Recipe(
    layers=2, heads=4, d_model=16, steps=60, batch_size=8, log_every=5, final_steps=7, validation_size=8,
    examples=None, schedule="decay-when-learned", clip=1.0, head_dropout=0.5, learned_below=0.05,
)  # fmt: skip


def test_a_share_of_heads_is_dropped_and_the_rest_scaled_up():
    scales = torch.cat([head_scales([1, 2], step, 3, 8, 0.25) for step in range(200)])
    assert scales.unique().tolist() == pytest.approx([0, 4 / 3])
    assert float(scales.mean()) == pytest.approx(1.0, abs=0.03)
    by_place = scales.mean(dim=0)
    assert 0.8 < float(by_place.min()) < float(by_place.max()) < 1.2
    assert torch.equal(head_scales([1], 0, 3, 8, 0.0), torch.ones(1, 3, 8))


def test_dropped_heads_depend_on_seed_and_step_alone():
    both = head_scales([1, 2], 5, 3, 8, 0.5)
    assert torch.equal(both[1:], head_scales([2], 5, 3, 8, 0.5))
    assert not torch.equal(both[0], both[1])
    assert not torch.equal(both, head_scales([1, 2], 6, 3, 8, 0.5))
    state = torch.random.get_rng_state()
    head_scales([1], 0, 3, 8, 0.5)
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("apart", [1, 2])
def test_an_update_is_that_of_models_with_scaled_heads(apart, monkeypatch):
    """Against autograd through the scaling itself, and one plain AdamW a model."""
    seeds = [3, 4]
    with monkeypatch.context() as patch:
        patch.setattr("hopscope.training.ensemble.models_at_once", lambda *given: apart)
        ensemble = Ensemble(PROBLEM, TINY, seeds, REFERENCE)
    batch = Data(PROBLEM, TINY, seeds).training(0)
    scales = head_scales(seeds, 0, TINY.layers, TINY.heads, 0.5)
    scales[0, 0] = 0.0  # a layer without any
    whole = {name: tensor.clone() for name, tensor in ensemble.weights().items()}
    weights = {name: tensor.clone().requires_grad_() for name, tensor in whole.items()}

    def scaled(name: str, weight: Tensor) -> Tensor:
        if not name.endswith("attention.out.weight"):
            return weight
        layer = int(name.split(".")[1])
        return weight * scales[:, layer].repeat_interleave(weight.shape[1] // TINY.heads, dim=1)[:, :, None]

    plain = Ensemble(PROBLEM, TINY, seeds, REFERENCE)._parts[0][1].transformer
    used = {name: scaled(name, weight) for name, weight in weights.items()}
    answers = functional_call(plain, used, (batch.inputs,))
    expected = squared_errors(answers, batch.targets, PROBLEM.symbol_dim).mean(dim=1)
    expected.mean(dim=1).sum().backward()
    losses = ensemble.update(batch, [0.01] * 2, scales)
    torch.testing.assert_close(losses, expected.detach())
    for model in range(2):
        mine = [weight.detach()[model].clone().requires_grad_() for weight in weights.values()]
        for part, weight in zip(mine, weights.values(), strict=True):
            assert weight.grad is not None
            part.grad = weight.grad[model].clone()
        torch.nn.utils.clip_grad_norm_(mine, 1.0)
        torch.optim.AdamW(mine, lr=0.01, betas=(TINY.beta1, TINY.beta2), weight_decay=TINY.weight_decay).step()
        for name, part in zip(weights, mine, strict=True):
            if not name.endswith("key.bias"):  # that changes nothing: its gradient is rounding, and a step its sign
                # A hundredth of a step: where a gradient is near epsilon, its rounding shows in the step.
                torch.testing.assert_close(ensemble.weights()[name][model], part.detach(), atol=1e-4, rtol=1e-4)
    out = ensemble.weights()["blocks.0.attention.out.weight"]
    shrunk = whole["blocks.0.attention.out.weight"] * (1 - 0.01 * TINY.weight_decay)
    torch.testing.assert_close(out[0], shrunk[0])  # put back, and no gradient where no head took part


def _learned_from(step: int, monkeypatch: pytest.MonkeyPatch, first: int = 0) -> list[int]:
    """Every hop counts as learned from a step on, the second from `first` on; returns the steps with dropped heads."""
    drawn: list[int] = []

    def evaluated(ensemble: Ensemble, batch: object) -> Tensor:
        done = updates(ensemble)
        return torch.tensor([[0.1 if done >= step else 0.7, 0.1 if done >= (first or step) else 0.7]])

    def recorded(seeds: object, step: int, *rest: object) -> Tensor:
        drawn.append(step)
        return head_scales(seeds, step, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Ensemble, "evaluate", evaluated)
    monkeypatch.setattr("hopscope.training.trainer.head_scales", recorded)
    return drawn


def test_heads_are_dropped_only_once_a_hop_is_learned_also_when_resumed(tmp_path, monkeypatch):
    """Whichever hop; two asked for are there when all are, and then none is left out."""
    monkeypatch.setattr("hopscope.training.trainer._SECONDS_BETWEEN_STATES", 0.0)
    drawn = _learned_from(30, monkeypatch, first=15)
    setup = Setup("run", PROBLEM, replace(TINY, head_dropout_after=1), (1,))
    whole = train(setup, tmp_path / "whole", execution=REFERENCE)
    assert drawn == [*range(15, 30)]
    train_in_two(setup, tmp_path / "cut", 25, REFERENCE)
    assert sorted({*drawn[15:]}) == [*range(15, 30)]
    assert contents(tmp_path / "cut") == contents(whole.path)
    drawn.clear()
    train(replace(setup, recipe=replace(TINY, head_dropout_after=2)), tmp_path / "two", execution=REFERENCE)
    assert drawn == []


def test_heads_are_dropped_from_some_hops_learned_to_all():
    recipe = replace(TINY, head_dropout_after=1)
    rows = np.array([[0.4, 0.8], [0.8, 0.4], [0.8, float("nan")]])
    assert below(rows, 0.5, hops=1).tolist() == [True, True, False]
    assert below(rows, 0.5, hops=0).all()
    assert not below(rows, 0.5).any()
    models = Milestones(), Milestones(dropout_from=10), Milestones(dropout_from=10, dropout_until=20)
    assert Schedule(recipe, models).drops_heads == [False, True, False]
    assert Schedule(TINY).drops_heads == [True]
