"""Heads that write nothing are skipped where no edit must see them, and every number stays what it was."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from small_models import PROBLEM, random_model

from hopscope.circuits.evaluate.ablations import (
    ALIKE,
    IDENTITY,
    KEEP,
    POSITIONAL,
    RESAMPLE,
    UNIFORM,
    ZERO,
    Ablation,
    Interventions,
    one_hot,
)
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.model.fast import FastTransformer, single
from hopscope.problem.paths import HeadRow
from hopscope.training.data import held_out

HEADS, LAYERS = 4, 3
SILENT = {(0, 0), (0, 3), (1, 1), (2, 0), (2, 1), (2, 2), (2, 3)}
"""Some of the first layer's, one of the second's, all of the last one's."""

FORMS: list[Ablation] = [KEEP, UNIFORM, ZERO, IDENTITY, RESAMPLE, POSITIONAL, ALIKE, one_hot(2)]


def _model(silent=SILENT) -> FastTransformer:
    """Random weights, output weights of the silent heads zero; every head is computed."""
    plain = random_model(PROBLEM, layers=LAYERS, heads=HEADS)
    model = FastTransformer(plain.shape)
    model.load_state_dict(plain.state_dict())
    model.requires_grad_(False)
    for layer, head in silent:
        _out(model, layer, head).zero_()
    return model


def _out(model: FastTransformer, layer: int, head: int) -> torch.Tensor:
    width = model.shape.d_head
    return model.blocks[layer].attention.out.weight[:, head * width : (head + 1) * width]


def _evaluators(silent=SILENT) -> tuple[VectorEvaluator, VectorEvaluator]:
    """All heads computed; the same model, with those skipped that write nothing."""
    whole, batch = _model(silent), held_out(PROBLEM, 12, 0, "skipped")
    return VectorEvaluator(whole, PROBLEM, batch), VectorEvaluator(single(whole, 0), PROBLEM, batch)


def _some_candidates(count: int, forms: list[Ablation] = FORMS) -> list[Interventions]:
    """Interventions that name an ablation for every row, among others those of silent heads."""
    drawn, rows = torch.Generator().manual_seed(0), [*product(range(LAYERS), range(HEADS), range(5))]
    numbers = torch.randint(len(forms), (count, len(rows)), generator=drawn).tolist()
    return [{HeadRow(*row): forms[one] for row, one in zip(rows, number, strict=True)} for number in numbers]


@pytest.mark.parametrize("forms", [FORMS, [UNIFORM, ZERO, IDENTITY, one_hot(2)], [KEEP, POSITIONAL]])
def test_losses_under_interventions_are_the_same(forms: list[Ablation]) -> None:
    every, some = _evaluators()
    assert every.skipped == frozenset()
    assert some.skipped == SILENT
    candidates = _some_candidates(6, forms)
    torch.testing.assert_close(some.errors(candidates), every.errors(candidates), rtol=1e-4, atol=1e-5)
    for evaluator in (every, some):
        evaluator.depart_from(candidates[0])
    changed = [candidates[0] | {HeadRow(1, head, 4): UNIFORM} for head in range(HEADS)]
    torch.testing.assert_close(some.errors(changed), every.errors(changed), rtol=1e-4, atol=1e-5)
    assert len({*map(float, some.errors(changed).mean(dim=(1, 2)))}) > 1  # it matters which head a form is of
