"""Heads whose attention is fixed, in training and after."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from hopscope.errors import InputError
from hopscope.lab import train
from hopscope.model.architecture import HeldHead
from hopscope.model.initial_weights import initialise
from hopscope.model.transformer import Transformer
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.data import held_out
from hopscope.training.execution import REFERENCE
from hopscope.training.recipe import Recipe
from hopscope.training.run import RunFolder

PROBLEM = RetrievalProblem(hops=2)
TINY = Recipe(
    layers=2, heads=2, d_model=16, steps=40, batch_size=8, log_every=5, final_steps=7, validation_size=8,
    examples=64, learning_rate=3e-3,
)  # fmt: skip


def transformer(held=(), seed=0):
    made = Transformer(replace(TINY, held=held).architecture(PROBLEM), 1)
    initialise(made, [seed])
    return made.requires_grad_(False)


@pytest.mark.parametrize(
    ("pattern", "row", "right"),
    [
        ("previous", 5, [0, 0, 0, 0, 1, 0]),
        ("previous", 0, [1]),
        ("itself", 3, [0, 0, 0, 1]),
        ("uniform", 3, [0.25] * 4),
        ("nothing", 3, [0.0] * 4),
    ],
)
def test_fixed_attention_follows_its_pattern_and_other_heads_are_unchanged(pattern, row, right):
    batch = held_out(PROBLEM, 3)
    inputs = batch.inputs[None]
    own = transformer().patterns(inputs)
    held = transformer((HeldHead(1, 2, pattern),)).patterns(inputs)
    assert torch.equal(held[0][:, :, 0], own[0][:, :, 0])
    shown = held[0][0, :, 1, row, : len(right)]
    assert torch.allclose(shown, torch.tensor(right, dtype=torch.float32).expand_as(shown))
    assert held[0][0, :, 1, row, len(right) :].sum() == 0
    assert not torch.equal(held[1], own[1])


def test_attention_stays_fixed_through_training_and_after(tmp_path):
    held = (HeldHead(1, 1, "previous"), HeldHead(2, 2, "nothing"))
    run = train(
        replace(TINY, held=held, checkpoint_every=20), PROBLEM, tmp_path / "run", seeds=[1, 2], execution=REFERENCE
    )
    again = RunFolder(tmp_path / "run")
    assert again.recipe.held == held
    train(run.recipe, PROBLEM, tmp_path / "run", seeds=[1, 2])  # the same run is found again
    with pytest.raises(InputError, match="held"):
        train(replace(TINY, checkpoint_every=20), PROBLEM, tmp_path / "run", seeds=[1, 2])
    first, last = again.transformer(0), again.transformer()
    query = [weights.blocks[0].attention.query.weight for weights in (first, last)]
    # Weight decay alone moves what cannot matter: all of head 1's queries shrink by one factor.
    ratio = (query[1] / query[0])[..., :8]
    assert ratio.std() < 1e-4
    assert (query[1] / query[0])[..., 8:].std() > 1e-2
    batch = held_out(PROBLEM, 2)
    inputs = batch.inputs.expand(2, *batch.inputs.shape)
    patterns = last.patterns(inputs)
    assert torch.equal(patterns[0][:, :, 0, 1:].diagonal(0, -2, -1), torch.ones(2, 2, PROBLEM.sequence_length - 1))
    assert patterns[1][:, :, 1].abs().max() == 0
