"""When a run does what: rates, rows and checkpoints by step, and an end that comes when a run has learned."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import pytest
import torch
from click.testing import CliRunner
from killing import contents
from small_runs import train_in_two, updates
from torch import Tensor

import hopscope as hs
from hopscope.cli.training_verbs import sweep
from hopscope.cli.training_verbs import train as command
from hopscope.errors import InputError
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch
from hopscope.training.ensemble import Ensemble
from hopscope.training.execution import REFERENCE
from hopscope.training.pruning import prune
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.schedule import Milestones, Schedule
from hopscope.training.trainer import train

PROBLEM = RetrievalProblem(hops=2)
ONE_CHAIN = RetrievalProblem(hops=2, chains=1)
"""Where nobody need guess, and any loss may count as learned."""
TINY = Recipe(
    layers=2, heads=2, d_model=16, steps=40, batch_size=8, log_every=5, final_steps=7, validation_size=8, examples=64,
)  # fmt: skip


def rates(schedule: Schedule, steps: Iterable[int]) -> list[float]:
    return [schedule.learning_rates(step)[0] for step in steps]


def test_a_rate_that_falls_when_learned():
    recipe = replace(TINY, steps=100, learning_rate=1.0, schedule="decay-when-learned", final_steps=10)
    never, early, late = (Schedule(recipe, (Milestones(at),)) for at in (None, 40, 85))
    assert [schedule.end for schedule in (never, early, late)] == [100, 70, 100]
    assert rates(early, (39, 40, 55, 69)) == pytest.approx([1.0, 1.0, 0.5, 1 / 30])
    stable = Schedule(replace(recipe, schedule="warmup-stable-decay"))
    for schedule in (never, late, Schedule(stable.recipe, (Milestones(40),))):
        assert rates(schedule, range(100)) == rates(stable, range(100))
    assert [step for step in range(55, 71) if early.logs(step)] == [55, 60, *range(61, 71)]
    assert early.checkpoints(70)
    assert not never.checkpoints(70)


def test_learned_below_decides_when_the_rate_falls(tmp_path, monkeypatch):
    """Learned at step 10 as the paper counts, and well enough for the rate to fall at 30."""

    def as_if(ensemble: Ensemble, batch: Batch) -> Tensor:
        step = updates(ensemble)
        return torch.full((1, 2), 0.6 if step < 10 else 0.4 if step < 30 else 0.2)

    monkeypatch.setattr(Ensemble, "evaluate", as_if)
    recipe = replace(TINY, schedule="decay-when-learned", steps=60, decay_fraction=0.5)
    for below, at in ((0.5, 10), (0.3, 30), (0.1, None)):
        setup = Setup("run", PROBLEM, replace(recipe, learned_below=below), (1,))
        run = train(setup, tmp_path / str(below), execution=REFERENCE)
        assert (run.schedule.models[0].learned_at, run.result.steps) == (at, min(60, (at or 60) + 30))


def test_a_guess_between_two_chains_is_not_learned(tmp_path, monkeypatch):
    """It costs 0.5, and by chance less. Heads are left out until both hops are learned."""

    def as_if(ensemble: Ensemble, batch: Batch) -> Tensor:
        return torch.full((1, 2), 0.49 if updates(ensemble) < 20 else 0.3)

    monkeypatch.setattr(Ensemble, "evaluate", as_if)
    recipe = replace(TINY, head_dropout=0.5, head_dropout_after=1)
    setup = Setup("run", RetrievalProblem(hops=2, chains=2), recipe, (1,))
    run = train(setup, tmp_path / "two", execution=REFERENCE)
    assert run.metrics.first_below() == ((20, 20),)
    assert run.schedule.models[0].dropout_until == run.schedule.models[0].dropout_from == 20
    four = train(replace(setup, problem=PROBLEM), tmp_path / "four", execution=REFERENCE)
    assert four.schedule.models[0].dropout_until == 5


@pytest.mark.parametrize("waits", [{"schedule": "decay-when-learned"}, {"prune_every": 5}])
def test_a_guess_must_not_count_as_learned_where_a_run_waits_for_that(waits, tmp_path):
    two = RetrievalProblem(hops=2, chains=2)
    few = replace(TINY, steps=1, final_steps=1, **waits)
    with pytest.raises(InputError, match=r"less than 0\.5, the loss of a guess, got 0\.5"):
        hs.train(few, two, tmp_path / "run")
    many = ["--learned-below", "0.8", "--device", "cpu", "--depths", "1", "--seeds", "0"]
    for verb, options in ((command, ["--recipe", "plain", "--learned-below", "0.8"]), (sweep, many)):
        result = CliRunner().invoke(verb, [str(tmp_path / "run"), *options])
        assert "the loss of a guess, got 0.8" in str(result.exception)
    assert not (tmp_path / "run").exists()
    for other, problem in ((replace(few, learned_below=0.3), two), (few, PROBLEM), (few, replace(two, chains=1))):
        Setup("run", problem, other)
    Setup("run", two, TINY)  # nothing depends on it


@pytest.mark.parametrize("fall", [pytest.param(0.3, marks=pytest.mark.slow), 0.0])
def test_a_run_ends_when_it_has_learned_and_resumes_to_the_same(fall, tmp_path, monkeypatch):
    """Two seeds: the later one decides when; a run that is cut anywhere comes to the same bytes."""
    monkeypatch.setattr("hopscope.training.trainer._SECONDS_BETWEEN_STATES", 0.0)
    recipe = replace(
        TINY,
        schedule="decay-when-learned",
        steps=200,
        checkpoint_every=50,
        checkpoint_precision="bf16",
        decay_fraction=fall,
    )

    def as_if_learned(ensemble: Ensemble, batch: Batch) -> Tensor:
        step = updates(ensemble)
        return torch.tensor([[0.4 if step >= 30 else 0.6] * 2, [0.4 if step >= 45 else 0.6] * 2])

    monkeypatch.setattr(Ensemble, "evaluate", as_if_learned)
    setup = Setup("run", PROBLEM, recipe, (1, 2))
    run = train(setup, tmp_path / "run", execution=REFERENCE)
    assert [model.learned_at for model in run.schedule.models] == [30, 45]
    assert run.result.steps == run.schedule.end == max(run.checkpoints) == 45 + 200 * fall
    rows = {*range(5, 110, 5), *range(84, 91), *range(99, 106)} if fall else {*range(5, 50, 5)}
    assert run.metrics.steps.tolist() == sorted(rows)
    for cut in (45, 92) if fall else (30,):
        train_in_two(setup, tmp_path / f"cut-{cut}", cut, REFERENCE)
        assert contents(tmp_path / f"cut-{cut}") == contents(run.path)


@pytest.mark.slow
def test_a_model_of_an_ensemble_equals_one_trained_alone(tmp_path, monkeypatch):
    """Its rate falls, heads are dropped and pruned, and its end comes, when it has learned, not when others have."""
    monkeypatch.setattr("hopscope.training.ensemble.prune", partial(prune, cost=0.01))
    recipe = replace(
        TINY, schedule="decay-when-learned", steps=120, learned_below=1.0, learning_rate=1e-2, batch_size=32,
        decay_fraction=0.25, validation_size=64, prune_every=10, head_dropout=0.3, clip=1.0,
    )  # fmt: skip
    seeds = (1, 2, 3)
    together = train(Setup("run", ONE_CHAIN, recipe, seeds), tmp_path / "together", execution=REFERENCE)
    assert len({together.schedule.of_model(model).end for model in range(3)}) > 1, "or nothing is tested"
    assert len(set(together.metrics.heads[-1])) > 1
    weights = together.transformer().state_dict()
    for model, seed in enumerate(seeds):
        alone = train(Setup("run", ONE_CHAIN, recipe, (seed,)), tmp_path / str(seed), execution=REFERENCE)
        assert together.schedule.of_model(model) == alone.schedule
        assert together.metrics.heads[-1, model] == alone.metrics.heads[-1, 0]
        ours, theirs = together.result.models[model], alone.result.models[0]
        assert ours.final_validation_loss == pytest.approx(theirs.final_validation_loss, rel=1e-4)
        assert ours.held_out_partial_losses == pytest.approx(theirs.held_out_partial_losses, rel=1e-4)
        out = "blocks.1.attention.out.weight"  # of heads that are gone all else goes on as it may
        torch.testing.assert_close(weights[out][model], alone.transformer().state_dict()[out][0], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("fall", "rows"), [(0.05, 6), (0.0, 1)])
def test_the_final_loss_is_of_steps_after_the_fall_alone_and_among_others(fall, rows, tmp_path):
    """Before the fall a model has a row at every step only where another one's last steps are."""
    recipe = replace(
        TINY,
        schedule="decay-when-learned",
        steps=120,
        learned_below=1.0,
        learning_rate=1e-2,
        final_steps=9,
        decay_fraction=fall,
    )
    seeds = (1, 2, 3)
    together = train(Setup("run", ONE_CHAIN, recipe, seeds), tmp_path / "together", execution=REFERENCE)
    assert len({together.schedule.of_model(model).end for model in range(3)}) > 1, "or nothing is tested"
    for model, seed in enumerate(seeds):
        alone = train(Setup("run", ONE_CHAIN, recipe, (seed,)), tmp_path / str(seed), execution=REFERENCE)
        final_loss = alone.result.models[0].final_validation_loss
        end = alone.schedule.end
        last = alone.metrics.after(end - rows, end).validation_loss[:, 0]
        assert len(last) == rows
        assert final_loss == pytest.approx(last.mean())
        assert together.result.models[model].final_validation_loss == pytest.approx(final_loss, rel=1e-4)


def test_the_final_loss_of_other_schedules_is_of_the_last_steps_whatever_the_rate():
    assert Schedule(replace(TINY, schedule="warmup-stable-decay", decay_fraction=0.05)).final_from(0) == 33
    assert Schedule(replace(TINY, schedule="decay-when-learned", decay_fraction=0.05)).final_from(0) == 38


def test_the_other_schedules():
    recipe = replace(TINY, steps=100, warmup=10, learning_rate=1.0, schedule="constant")
    assert rates(Schedule(recipe), (0, 4, 9, 50, 99)) == [0.1, 0.5, 1.0, 1.0, 1.0]
    cosine = Schedule(replace(recipe, schedule="cosine", warmup=0))
    assert rates(cosine, (0, 50)) == pytest.approx([1.0, 0.5])
    assert 0 < cosine.learning_rates(99)[0] < 0.001
    stable = Schedule(replace(recipe, schedule="warmup-stable-decay", warmup=0))
    assert rates(stable, (0, 70, 85, 99)) == pytest.approx([1.0, 1.0, 0.5, 1 / 30])
