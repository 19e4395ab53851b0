"""What is learned is what a plain loop learns: in an ensemble, in parts, or rounded."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_runs import PROBLEM, TINY

from hopscope.lab.run import train
from hopscope.problem.counter import derive_seed
from hopscope.training import trainer
from hopscope.training.data import Data, held_out, squared_errors
from hopscope.training.ensemble import Ensemble
from hopscope.training.execution import REFERENCE
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.schedule import Milestones, Schedule


def plain_training(recipe: Recipe, seed: int, steps: int) -> list[list[float]]:
    """One model, one ordinary loop: AdamW over its parameters, torch's own clipping."""
    from hopscope.model.initial_weights import initialise
    from hopscope.model.transformer import Transformer

    transformer = Transformer(recipe.architecture(PROBLEM))
    initialise(transformer, [derive_seed(seed, "weights")], recipe.initial)
    optimiser = torch.optim.AdamW(transformer.parameters(), lr=1.0, weight_decay=recipe.weight_decay)
    data, losses = Data(PROBLEM, recipe, [seed]), []
    for step in range(steps):
        batch = data.training(step)
        inputs = batch.inputs * 0.9 if recipe.hooks else batch.inputs
        errors = (transformer(inputs) - batch.targets).square()
        weights = torch.tensor((0.2, 3.0) if recipe.hooks else (1.0, 1.0)).repeat_interleave(4)
        loss = (weights * errors).mean()
        losses.append([errors[..., :4].mean().item(), errors[..., 4:].mean().item()])
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(transformer.parameters(), recipe.clip)
        optimiser.param_groups[0]["lr"] = Schedule(recipe).learning_rates(step)[0]
        optimiser.step()
    return losses


@pytest.mark.parametrize(("models_at_once", "hooks"), [(1, None), (2, "small_runs:Weighted")])
def test_an_ensemble_learns_what_each_model_learns_alone(models_at_once, hooks, monkeypatch):
    """Per-model clipping, seeds and data: any leak between models, or a wrong scale of the loss, breaks it."""
    recipe = replace(TINY, hooks=hooks)
    monkeypatch.setattr("hopscope.training.ensemble.models_at_once", lambda *given: models_at_once)
    ensemble = Ensemble(PROBLEM, recipe, [4, 5, 6], REFERENCE)
    data = Data(PROBLEM, recipe, [4, 5, 6])
    schedule = Schedule(recipe, (Milestones(),) * 3)
    losses = [ensemble.update(data.training(step), schedule.learning_rates(step)) for step in range(12)]
    for model, seed in enumerate((4, 5, 6)):
        together = torch.stack(losses)[:, model]
        torch.testing.assert_close(together, torch.tensor(plain_training(recipe, seed, 12)), rtol=1e-4, atol=1e-5)


def test_clipping_bites_in_that_test():
    loose = plain_training(replace(TINY, clip=1e9), 4, 30)
    assert not torch.allclose(torch.tensor(loose), torch.tensor(plain_training(TINY, 4, 30)), rtol=1e-3)


def test_rows_of_training_average_every_step_since_the_last(tmp_path):
    run = train(replace(TINY, final_steps=1), PROBLEM, tmp_path / "run", seeds=[4], execution=REFERENCE)
    plain = torch.tensor(plain_training(TINY, 4, 40))
    for step, losses in zip(run.metrics.steps, run.metrics.train_partial_losses[:, 0], strict=True):
        assert losses == pytest.approx(plain[step - 5 : step].mean(0).numpy(), rel=1e-3)


def test_bf16_and_fp32_learn_the_same():
    """bf16 rounds; what is learned must agree to that rounding."""
    losses = []
    for precision in ("fp32", "bf16"):
        ensemble = Ensemble(PROBLEM, TINY, [4, 5], replace(REFERENCE, precision=precision))
        data = Data(PROBLEM, TINY, [4, 5])
        losses.append(torch.stack([ensemble.update(data.training(step), [1e-2] * 2) for step in range(40)]))
    assert losses[1].dtype == torch.float32
    assert 0 < (losses[0] - losses[1]).abs().max() < 0.05
    assert losses[0][-5:].mean() < losses[0][:5].mean()


def test_every_held_out_sequence_is_evaluated_once_however_many_together(monkeypatch, tmp_path):
    setup = Setup("run", PROBLEM, replace(TINY, steps=1), (0, 1))
    run = trainer.train(setup, tmp_path / "run", execution=REFERENCE)
    whole = trainer.held_out_errors(run, trainer.HELD_OUT)[1].mean(dim=1)
    (_, stored), errors = run.result.models, {}
    assert stored.held_out_standard_error == pytest.approx(float(whole.std() / len(whole) ** 0.5), rel=1e-4)
    for at_once in (1, 64, 100, 256):
        monkeypatch.setattr(trainer, "_HELD_OUT_AT_ONCE", at_once)
        errors[at_once] = trainer.held_out_errors(run, 100)
    batch = held_out(PROBLEM, 100)
    with torch.no_grad():
        answers = run.transformer()(batch.inputs.expand(2, *batch.inputs.shape))
    alone = squared_errors(answers, batch.targets, PROBLEM.symbol_dim)
    for error in errors.values():
        torch.testing.assert_close(error, alone, rtol=1e-5, atol=1e-6)
