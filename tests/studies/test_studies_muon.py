"""Muon for many models and heads is torch's own, matrix by matrix, and the rest is AdamW's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.optim import _muon as theirs

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.data import Data
from hopscope.training.ensemble import Ensemble
from hopscope.training.execution import REFERENCE
from hopscope.training.recipe import Recipe

PROBLEM = RetrievalProblem(hops=2)
RECIPE = Recipe(
    layers=2, heads=2, d_model=16, head_dim=4, steps=4, batch_size=8, log_every=2, final_steps=1, validation_size=8,
    learning_rate=1e-2, hooks="studies.muon:Muon", examples=None,
)  # fmt: skip
HEADS = {"query": 1, "key": 1, "value": 1, "out": 0}
"""The axis along which each of attention's weights is cut into heads."""


def ensemble(recipe: Recipe = RECIPE, seeds: tuple[int, ...] = (1, 2)) -> Ensemble:
    return Ensemble(PROBLEM, recipe, seeds, REFERENCE)


def by_torch(recipe: Recipe, seed: int, steps: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, torch.Tensor]:
    """The weights of one model after some steps by torch's Muon, a parameter a head, and its AdamW."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.float)  # torch's makes them orthogonal in bf16
    from hopscope.model.transformer import Transformer

    alone, data = ensemble(recipe, (seed,)), Data(PROBLEM, recipe, [seed])
    transformer = Transformer(recipe.architecture(PROBLEM))
    transformer.load_state_dict(alone.weights())
    every: dict[str, Any] = dict(transformer.named_parameters())
    cut: dict[str, tuple[list[torch.nn.Parameter], int]] = {}
    for name, weight in every.items():
        part = name.split(".")[-2]
        if name.endswith("weight") and part in {*HEADS, "up", "down"}:
            dim = HEADS.get(part, 0)
            pieces = weight[0].detach().chunk(recipe.heads if part in HEADS else 1, dim=dim)
            cut[name] = [torch.nn.Parameter(piece.clone()) for piece in pieces], dim
    common = {"lr": recipe.learning_rate, "weight_decay": recipe.weight_decay}
    matrices = [piece for pieces, _ in cut.values() for piece in pieces]
    of_matrices = theirs.Muon(matrices, adjust_lr_fn="match_rms_adamw", **common)
    rest = [weight for name, weight in every.items() if name not in cut]
    of_rest = torch.optim.AdamW(rest, betas=(recipe.beta1, recipe.beta2), **common)
    for step in range(steps):
        batch = data.training(step)
        transformer.zero_grad()
        (transformer(batch.inputs) - batch.targets).square().mean().backward()
        for name, (pieces, dim) in cut.items():
            for piece, gradient in zip(pieces, every[name].grad[0].chunk(len(pieces), dim=dim), strict=True):
                piece.grad = gradient.clone()
        of_matrices.step()
        of_rest.step()
        for name, (pieces, dim) in cut.items():
            every[name].data = torch.cat([piece.detach() for piece in pieces], dim=dim)[None]
    return {name: weight.detach() for name, weight in every.items()}


@pytest.mark.parametrize("recipe", [RECIPE, replace(RECIPE, mlp=False, heads=1, head_dim=None, weight_decay=0.5)])
def test_it_is_torchs_head_by_head(recipe, monkeypatch):
    both, data = ensemble(recipe), Data(PROBLEM, recipe, [1, 2])
    for step in range(4):
        both.update(data.training(step), [recipe.learning_rate] * 2)
    for model, seed in enumerate((1, 2)):
        for name, weight in by_torch(recipe, seed, 4, monkeypatch).items():
            if name.endswith("key.bias"):  # to which the loss is blind: AdamW makes much of rounding
                continue
            assert torch.allclose(both.weights()[name][model : model + 1], weight, atol=2e-4), name


def test_a_model_at_another_rate_goes_a_part_of_the_way():
    """And at none it stays, whatever its neighbour does."""
    whole, part, data = ensemble(), ensemble(), Data(PROBLEM, RECIPE, [1, 2])
    before = whole.weights()
    whole.update(data.training(0), [1e-2, 1e-2])
    part.update(data.training(0), [1e-2, 0.0])
    for name, weight in part.weights().items():
        assert torch.equal(weight[0], whole.weights()[name][0])
        assert torch.equal(weight[1], before[name][1])
