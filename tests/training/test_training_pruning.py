"""Heads that go while a model trains on: which, when, for good, and the same after any interruption."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from killing import contents
from small_runs import train_in_two, updates
from torch import Tensor

from hopscope.model.fast import FastTransformer
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch
from hopscope.training.data import Data
from hopscope.training.ensemble import Ensemble
from hopscope.training.execution import REFERENCE
from hopscope.training.pruning import Left, head_scales, prune
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.schedule import Milestones, Schedule
from hopscope.training.trainer import train

PROBLEM = RetrievalProblem(hops=1)
TINY = Recipe(
    layers=2, heads=2, d_model=16, steps=100, batch_size=8, log_every=5, final_steps=7, validation_size=8,
    examples=None, schedule="decay-when-learned", prune_every=10, clip=1.0,
)  # fmt: skip


class Planted:
    """Stands in for an ensemble: what is lost without each head is written down, and adds up."""

    def __init__(self, worth: Tensor) -> None:
        self.worth, self.left = worth, torch.ones_like(worth, dtype=torch.bool)

    def losses_with(self, left: Left) -> Tensor:
        return torch.where(left, 0.0, self.worth.double()).flatten(1).sum(dim=1)

    def pruned(self, cost: float) -> list[list[list[bool]]]:
        return prune(self.left, self.losses_with, cost).tolist()


def test_the_least_costly_heads_are_pruned_up_to_the_cost():
    worth = torch.tensor([[[0.01, 9.0], [0.3, 0.02]], [[5.0, 0.4], [0.5, 6.0]]])
    planted = Planted(worth)
    assert planted.pruned(0.05) == [[[False, True], [True, False]], [[True, True], [True, True]]]
    assert planted.pruned(0.45) == [[[False, True], [False, False]], [[True, False], [True, True]]]
    assert planted.left.all()  # nothing has gone yet


def test_pruned_heads_do_not_count_again_and_nan_prunes_nothing():
    planted = Planted(torch.tensor([[[0.1, 0.1, torch.nan, 0.3]]]))
    planted.left[0, 0, 0] = False
    assert planted.pruned(0.15) == [[[False, False, True, True]]]
    together = Planted(torch.tensor([[[0.0, 0.0]]]))  # either alone is free, both together are not
    together.losses_with = lambda left: (~left).all(dim=-1).all(dim=-1).double()
    assert sum(together.pruned(0.5)[0][0]) == 1


def test_losses_with_some_heads_are_those_without_the_others():
    """Against the transformer itself, whose heads are knocked out by other means: their values are made zero."""
    ensemble = Ensemble(PROBLEM, TINY, [1, 2, 3], REFERENCE)
    batch = Data(PROBLEM, TINY, [1, 2, 3]).pruning(0)
    before = ensemble.weights()
    left = torch.ones(3, 2, 2, dtype=torch.bool)
    left[0, 0, 1] = left[1, 1, 0] = left[1, 1, 1] = False
    found = ensemble.losses_with(left, batch)
    assert all(torch.equal(before[name], weight) for name, weight in ensemble.weights().items())
    other = Ensemble(PROBLEM, TINY, [1, 2, 3], REFERENCE)
    state = other.state()
    for model, layer, head in (~left).nonzero().tolist():
        columns = slice(8 * head, 8 * head + 8)
        state[f"blocks.{layer}.attention.value.weight"][model, :, columns] = 0
        state[f"blocks.{layer}.attention.value.bias"][model, :, columns] = 0
    other.load_state(state, 0)
    torch.testing.assert_close(found, other.evaluate(batch).mean(dim=1).double())
    assert not torch.allclose(found[:2], ensemble.losses_with(torch.ones_like(left), batch)[:2])


@pytest.mark.parametrize(("scaled", "kernels"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("gone", [[(0, 0, 0), (1, 1, 1)], [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1), (1, 1, 0)]])
def test_a_pruned_head_stays_pruned_and_the_others_learn_as_if_it_had_never_been_there(gone, scaled, kernels):
    """Weights, moments, clipping: a trace would show in others' heads; also where no head of a layer is left."""
    rates, engine = [1e-2] * 2, replace(REFERENCE, kernels=kernels)
    data = Data(PROBLEM, TINY, [1, 2])
    ensemble = Ensemble(PROBLEM, TINY, [1, 2], engine)
    for step in range(5):
        ensemble.update(data.training(step), rates)
    left = torch.ones(2, 2, 2, dtype=torch.bool)
    left[tuple(zip(*gone, strict=True))] = False
    for _, part in ensemble._parts:
        part.remove_others(left)
    # The same from the same state, but with heads that write nothing because their values are zero.
    twin = Ensemble(PROBLEM, replace(TINY, prune_every=None), [1, 2], engine)
    state = ensemble.state()
    for prefix in ("", "exp_avg.", "exp_avg_sq."):
        for model, layer, head in (~left).nonzero().tolist():
            for kind in ("query", "key", "value"):
                columns = slice(8 * head, 8 * head + 8)
                state[f"{prefix}blocks.{layer}.attention.{kind}.weight"][model, :, columns] = 0
                state[f"{prefix}blocks.{layer}.attention.{kind}.bias"][model, :, columns] = 0
    twin.load_state(state, 5)
    for step in range(5, 15):
        scales = head_scales([1, 2], step, layers=2, heads=2, share=0.3) if scaled else None
        losses = [models.update(data.training(step), rates, scales) for models in (ensemble, twin)]
        torch.testing.assert_close(*losses, rtol=1e-6, atol=0)
    for kind in ("", "exp_avg.", "exp_avg_sq."):
        for layer in range(2):
            out = ensemble.state()[f"{kind}blocks.{layer}.attention.out.weight"].view(2, 2, 8, 16)
            assert out.flatten(2).any(dim=2).tolist() == left[:, layer].tolist()


LEARNED = np.full(1, 0.1)
"""Validation losses of a model."""


def pruned(schedule: Schedule, losses: np.ndarray = LEARNED, end: int = 101) -> list[int]:
    """The steps at which a model with these losses is pruned."""
    return [step for step in range(end) if schedule.prunes(step, losses[None])[0]]


def test_when_heads_are_pruned():
    def reached(recipe: Recipe = TINY, *steps: int) -> Schedule:
        return Schedule(recipe, (Milestones(*steps),))

    assert pruned(reached()) == []
    learned, finished = reached(TINY, 30), reached(TINY, 30, 50)
    assert pruned(learned) == [30, 40, 50, 60]  # at 70 the rate falls
    assert learned.end == 100
    assert pruned(finished) == []
    assert finished.end == 80
    assert finished.rows(80) == {*range(5, 75, 5), *range(74, 81)}
    assert pruned(reached(replace(TINY, prune_every=7), 30), end=60) == [30, 40, 45, 55]  # first rows from 37, 44, 51
    assert pruned(learned, np.array([TINY.learned_below])) == []
    constant = reached(replace(TINY, schedule="constant"), 30)
    assert pruned(constant) == [*range(30, 100, 10)]
    assert constant.end == 100
    assert pruned(reached(replace(TINY, prune_every=None), 30)) == []


@pytest.fixture
def learned_at_20(monkeypatch) -> None:
    """Every hop of both models counts as learned from step 20 on; without a head of layer 1 the loss rises for sure."""

    def evaluated(ensemble: Ensemble, batch: Batch) -> Tensor:
        return torch.full((2, 1), 0.1 if updates(ensemble) >= 20 else 0.7)

    def losses_with(ensemble: Ensemble, left: Left, batch: Batch) -> Tensor:
        step = updates(ensemble)
        missed = torch.tensor([[[9.0, 9.0], [0.2, 0.25]], [[0.2, 9.0], [9.0, 0.3 if step < 40 else 0.0]]])
        return (missed.double() * ~left).flatten(1).sum(dim=1) * (~left != ~ensemble.left).flatten(1).any(dim=1)

    monkeypatch.setattr(Ensemble, "evaluate", evaluated)
    monkeypatch.setattr(Ensemble, "losses_with", losses_with)


@pytest.mark.usefixtures("learned_at_20")
def test_the_rate_falls_once_no_head_can_be_pruned(tmp_path):
    run = train(Setup("run", PROBLEM, TINY, (1, 2)), tmp_path / "run", execution=REFERENCE)
    schedule, metrics = run.schedule, run.metrics
    heads = dict(zip(metrics.steps.tolist(), metrics.heads.tolist(), strict=True))
    assert (heads[15], heads[20], heads[25]) == ([4, 4], [3, 3], [3, 3])
    assert [model.learned_at for model in schedule.models] == [20, 20]
    for model, reached in enumerate(schedule.models):
        at = reached.pruning_finished_at
        assert at is not None
        assert heads[at][model] == heads[at - 5][model] == heads[schedule.end][model]
        assert heads[at - 10][model] != heads[at - 15][model]
        assert schedule.of_model(model).end == at + 30
    assert run.result.steps == schedule.end
    written = run.transformer().state_dict()
    gone = [
        (model, layer, head)
        for layer in range(2)
        for model, rows in enumerate(written[f"blocks.{layer}.attention.out.weight"].view(2, 2, 8, 16))
        for head in range(2)
        if not rows[head].any()
    ]
    assert len(gone) == 8 - sum(heads[schedule.end])
    assert not {(0, 0, 0), (0, 0, 1)} & {*gone}


@pytest.mark.usefixtures("learned_at_20")
def test_a_run_resumed_while_pruning_gives_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr("hopscope.training.trainer._SECONDS_BETWEEN_STATES", 0.0)
    setup = Setup("run", PROBLEM, replace(TINY, checkpoint_every=10), (1, 2))
    whole = train(setup, tmp_path / "whole", execution=REFERENCE)
    train_in_two(setup, tmp_path / "cut", 30, REFERENCE)
    assert contents(tmp_path / "cut") == contents(whole.path)


@pytest.mark.usefixtures("learned_at_20")
def test_a_forgotten_hop_is_learned_again_before_more_heads_are_pruned(tmp_path, monkeypatch):
    """Else a hop that is lost with the first heads costs nothing any more, and all that it needs goes too."""

    def evaluated(ensemble: Ensemble, batch: Batch) -> Tensor:
        step = updates(ensemble)
        forgotten = 25 <= step < 55  # by one of two models
        return torch.tensor([[0.1], [0.7]]) if forgotten else torch.full((2, 1), 0.1 if step >= 20 else 0.7)

    monkeypatch.setattr(Ensemble, "evaluate", evaluated)
    run = train(Setup("run", PROBLEM, TINY, (1, 2)), tmp_path / "run", execution=REFERENCE)
    heads = dict(zip(run.metrics.steps.tolist(), run.metrics.heads.tolist(), strict=True))
    assert (heads[20], heads[55], heads[60]) == ([3, 3], [3, 3], [3, 2])  # without it, none could go at step 30


@pytest.mark.parametrize("mlp", [False, True])
def test_a_layer_without_heads_leaves_the_stream_in_its_precision(mlp):
    """Else a run would go on in another one from the step at which a layer loses its last head."""
    made = FastTransformer(replace(TINY, layers=3, mlp=mlp).architecture(PROBLEM), 2)
    left = torch.ones(2, 3, 2, dtype=torch.bool)
    left[:, 1] = False
    with torch.no_grad():
        for parameter in made.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        made.blocks[1].attention.out.weight.zero_()
    streams, answers = [], []
    for block in made.blocks:
        block.register_forward_hook(lambda module, given, out: streams.append(out.dtype))
    for only in (False, True):
        if only:
            made.compute_only(left)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            answers.append(made(Data(PROBLEM, TINY, [1, 2]).training(0).inputs))
    assert streams == [torch.bfloat16] * 6
    assert torch.equal(*answers)


ONE_CHAIN = RetrievalProblem(hops=1, chains=1)
ALWAYS_LEARNED = replace(TINY, steps=40, examples=64, schedule="constant", prune_every=5, learned_below=2.0)


def _spoil(ensemble: Ensemble, model: int) -> None:
    with torch.no_grad():
        ensemble._parts[0][1]._parameters[0][model].fill_(float("inf"))


@pytest.mark.parametrize("clip", [1.0, None])
def test_pruned_heads_of_a_diverged_model_are_zero_not_nan(clip):
    """Else it would come back, and the other models' heads of that place with it."""
    recipe = replace(ALWAYS_LEARNED, clip=clip)
    ensemble, data = Ensemble(ONE_CHAIN, recipe, [1, 2], REFERENCE), Data(ONE_CHAIN, recipe, [1, 2])
    left = torch.ones(2, 2, 2, dtype=torch.bool)
    left[0, 0, 1] = left[0, 1, 0] = left[1, 1, 1] = False
    ensemble._parts[0][1].remove_others(left)
    _spoil(ensemble, 0)
    ensemble.update(data.training(0), [1e-2] * 2)
    weights = ensemble.state()
    for kind in ("", "exp_avg.", "exp_avg_sq."):
        for layer in range(2):
            rows = weights[f"{kind}blocks.{layer}.attention.out.weight"].view(2, 2, 8, 16)
            assert not rows[~left[:, layer]].any()
            assert rows[0][left[0, layer]].isnan().all()
            assert rows[1].isfinite().all()
