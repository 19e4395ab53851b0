"""Training: equal to a plain loop, resumable to the bit, and careful with folders."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hopscope.errors import InputError
from hopscope.lab import train
from hopscope.model.held import HeldHead
from hopscope.paper import recipes
from hopscope.problem.counter import derive_seed
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training import trainer
from hopscope.training.data import Data, held_out
from hopscope.training.engine import Engine, EngineChoice, _can_compile
from hopscope.training.ensemble import Ensemble
from hopscope.training.losses import squared_errors
from hopscope.training.plan import Plan
from hopscope.training.plans import Plans
from hopscope.training.recipe import Recipe
from hopscope.training.run import RunFolder
from hopscope.training.setup import Setup

PROBLEM = RetrievalProblem(hops=2)
TINY = Recipe(
    layers=2, heads=2, d_model=16, steps=40, batch_size=8, log_every=5, final_steps=7, validation_size=8,
    examples=64, checkpoint_every=20, learning_rate=3e-3, warmup=5, schedule="cosine", clip=0.3,
)  # fmt: skip
ENGINE = Engine(threads=1, models_at_once=2)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def plain_training(recipe: Recipe, seed: int, steps: int) -> list[list[float]]:
    """One model, one ordinary loop: AdamW over its parameters, torch's own clipping."""
    from hopscope.model.initial import initialise
    from hopscope.model.transformer import Transformer

    transformer = Transformer(recipe.architecture(PROBLEM))
    initialise(transformer, [derive_seed(seed, "weights")], recipe.initial)
    optimiser = torch.optim.AdamW(transformer.parameters(), lr=1.0, weight_decay=recipe.weight_decay)
    data, losses = Data(PROBLEM, recipe, [seed]), []
    for step in range(steps):
        batch = data.training(step)
        errors = (transformer(batch.inputs) - batch.targets).square()
        weights = torch.tensor(recipe.hop_weights or (1.0, 1.0)).repeat_interleave(4)
        loss = (weights * errors).mean()
        losses.append([errors[..., :4].mean().item(), errors[..., 4:].mean().item()])
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(transformer.parameters(), recipe.clip)
        optimiser.param_groups[0]["lr"] = Plan(recipe).learning_rate(step)
        optimiser.step()
    return losses


@pytest.mark.parametrize(("models_at_once", "weights"), [(1, None), (2, None), (3, None), (2, (0.2, 3.0))])
def test_an_ensemble_learns_what_each_model_learns_alone(models_at_once, weights):
    """Per-model clipping, seeds and data: any leak between models, or a wrong scale of the loss, breaks it."""
    recipe = replace(TINY, hop_weights=weights)
    ensemble = Ensemble(PROBLEM, recipe, [4, 5, 6], Engine(threads=1, models_at_once=models_at_once))
    data = Data(PROBLEM, recipe, [4, 5, 6])
    plans = Plans((Plan(recipe),) * 3)
    losses = [ensemble.update(data.training(step), plans.learning_rates(step)) for step in range(30)]
    for model, seed in enumerate((4, 5, 6)):
        together = torch.stack(losses)[:, model]
        torch.testing.assert_close(together, torch.tensor(plain_training(recipe, seed, 30)), rtol=1e-4, atol=1e-5)


def test_clipping_bites_in_that_test():
    loose = plain_training(replace(TINY, clip=1e9), 4, 30)
    assert not torch.allclose(torch.tensor(loose), torch.tensor(plain_training(TINY, 4, 30)), rtol=1e-3)


def test_the_folder_tells_the_story(tmp_path):
    run = train(TINY, PROBLEM, tmp_path / "run", seeds=[1, 2, 3], engine=ENGINE)
    metrics = run.metrics
    assert metrics.steps.tolist() == [5, 10, 15, 20, 25, 30, 34, 35, 36, 37, 38, 39, 40]
    assert metrics.partial_losses.shape == (13, 3, 2)
    assert metrics.validation_loss == pytest.approx(metrics.partial_losses.mean(axis=2))
    assert metrics.train_loss == pytest.approx(metrics.train_partial_losses.mean(axis=2))
    assert sorted(run.checkpoints) == [0, 20, 40]
    for model, told in enumerate(run.result.models):
        assert told.final_validation_loss == pytest.approx(metrics.validation_loss[-7:, model].mean())
        assert told.final_partial_losses == pytest.approx(metrics.partial_losses[-7:, model].mean(axis=0))
        assert 0 < told.held_out_loss < 2
    reopened = RunFolder(tmp_path / "run")
    assert (reopened.problem, reopened.recipe, reopened.seeds) == (PROBLEM, TINY, (1, 2, 3))
    assert len(set(reopened.model_hashes)) == 3
    assert not torch.equal(reopened.transformer(0).embed.weight, reopened.transformer().embed.weight)


def test_rows_of_training_average_every_step_since_the_last(tmp_path):
    run = train(replace(TINY, final_steps=1), PROBLEM, tmp_path / "run", seeds=[4], engine=ENGINE)
    plain = torch.tensor(plain_training(TINY, 4, 40))
    for step, losses in zip(run.metrics.steps, run.metrics.train_partial_losses[:, 0], strict=True):
        assert losses == pytest.approx(plain[step - 5 : step].mean(0).numpy(), rel=1e-3)


def test_stopped_and_continued_gives_the_same_bits(tmp_path, monkeypatch):
    """An exception at every kind of moment; then the bytes of the folder are those of a run left alone."""
    monkeypatch.setattr("hopscope.training.trainer._SECONDS_BETWEEN_STATES", 0.0)
    train(TINY, PROBLEM, tmp_path / "alone", seeds=[1, 2, 3], engine=ENGINE)
    original = Ensemble.update

    class Stopped(Exception):
        pass

    for stop in (1, 12, 3, 17, 2):
        calls = iter(range(stop))

        def update(self, batch, rate, scales, calls=calls):
            if next(calls, None) is None:
                raise Stopped
            return original(self, batch, rate, scales)

        monkeypatch.setattr(Ensemble, "update", update)
        with pytest.raises(Stopped):
            train(TINY, PROBLEM, tmp_path / "stopped", seeds=[1, 2, 3], engine=ENGINE)
    with (tmp_path / "stopped" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 25, "model"')  # a writer killed in the middle of a line
    monkeypatch.setattr(Ensemble, "update", original)
    train(TINY, PROBLEM, tmp_path / "stopped", seeds=[1, 2, 3], engine=ENGINE)
    assert contents(tmp_path / "stopped") == contents(tmp_path / "alone")


def test_a_recipe_of_lists_is_that_of_tuples(tmp_path):
    """What is read from run.json has tuples, and must be the recipe that was asked for."""
    held = [HeldHead(1, 2, "previous")]
    recipe = replace(TINY, steps=2, final_steps=1, hop_weights=[1.0, 2.0], held=held)
    assert recipe == replace(recipe, hop_weights=(1.0, 2.0), held=tuple(held))
    assert hash(recipe) is not None
    run = train(recipe, PROBLEM, tmp_path / "run", engine=ENGINE)
    assert run.finished
    assert run.recipe == recipe


def test_a_finished_run_is_reused(tmp_path):
    train(TINY, PROBLEM, tmp_path / "run", engine=ENGINE)
    before = contents(tmp_path / "run")
    (tmp_path / "run" / "state.safetensors").unlink()  # nothing of it is needed any more
    train(TINY, PROBLEM, tmp_path / "run")
    del before["state.safetensors"]
    assert contents(tmp_path / "run") == before


def test_a_folder_of_another_run_is_refused(tmp_path):
    train(TINY, PROBLEM, tmp_path / "run", engine=ENGINE)
    before = contents(tmp_path / "run")
    for recipe, problem, seeds, words in (
        (replace(TINY, steps=41), PROBLEM, [0], "steps = 40, not 41"),
        (TINY, replace(PROBLEM, hops=3), [0], "hops = 2, not 3"),
        (TINY, PROBLEM, [1], r"seeds = \[0\], not \[1\]"),
    ):
        with pytest.raises(InputError, match=words):
            train(recipe, problem, tmp_path / "run", seeds=seeds)
    assert contents(tmp_path / "run") == before


def test_foreign_and_damaged_folders_are_named_and_left_alone(tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("Dear")
    with pytest.raises(InputError, match="letters"):
        train(TINY, PROBLEM, tmp_path / "letters", engine=ENGINE)
    run = train(TINY, PROBLEM, tmp_path / "run", engine=ENGINE)
    newest = run.checkpoints[40]
    newest.write_bytes(newest.read_bytes()[:-100])
    with pytest.raises(InputError, match="step-000040"):
        run.transformer()
    with pytest.raises(InputError, match="nearest is at step 20"):
        run.transformer(21)
    record = json.loads((run.path / "run.json").read_text())
    for change, words in (({"schema": 99}, "99"), ({"kind": "cake"}, "not the record"), ({"recipe": {}}, "damaged")):
        (run.path / "run.json").write_text(json.dumps({**record, **change}))
        with pytest.raises(InputError, match=words):
            RunFolder(run.path)
    (run.path / "run.json").write_text("{")
    with pytest.raises(InputError, match=r"run\.json"):
        RunFolder(run.path)
    assert (run.path / "run.json").read_text() == "{"
    with pytest.raises(InputError, match="nowhere"):
        RunFolder(tmp_path / "nowhere")


def test_a_run_has_one_writer_and_the_hold_ends_with_its_process(tmp_path):
    run = train(TINY, PROBLEM, tmp_path / "run", engine=ENGINE)
    hold = (
        "import sys; from hopscope.training.run import RunFolder\n"
        "with RunFolder(sys.argv[1]).writing(): print('held', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, run.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        other.stdout.readline()
        with pytest.raises(InputError, match=r"another process is training in .*run; wait for it, or stop it"):
            run.writing(patience=0.1).__enter__()
        other.kill()
    with run.writing(patience=0.0), pytest.raises(InputError, match="another process"):
        run.writing(patience=0.0).__enter__()
    assert (run.path / ".writer").read_bytes() == b""


def test_a_weight_for_each_hop_asked_for():
    for weights in ((1.0,), (1.0, 1.0, 1.0), (0.0, 0.0)):
        with pytest.raises(InputError, match="a weight for each of 2 hops"):
            Setup("a", PROBLEM, replace(TINY, hop_weights=weights))


def test_a_damaged_state_is_refused(tmp_path, monkeypatch):
    run = train(TINY, PROBLEM, tmp_path / "run", engine=ENGINE)
    (run.path / "result.json").unlink()
    (run.path / "state.safetensors").write_bytes(b"not tensors")
    with pytest.raises(InputError, match=r"state\.safetensors"):
        train(TINY, PROBLEM, tmp_path / "run")


def test_a_diverged_model_is_written_as_null(tmp_path):
    run = train(replace(TINY, learning_rate=1e30, clip=None, warmup=0), PROBLEM, tmp_path / "run", engine=ENGINE)
    assert '"validation_loss": null' in (run.path / "metrics.jsonl").read_text()
    assert np.isnan(run.metrics.validation_loss[-1, 0])
    assert run.result.models[0].final_validation_loss is None
    assert run.result.models[0].final_partial_losses == (None, None)


@pytest.mark.parametrize("seeds", [[], [1, 1]])
def test_seeds_must_differ(tmp_path, seeds):
    with pytest.raises(InputError, match="seeds"):
        train(TINY, PROBLEM, tmp_path / "run", seeds=seeds)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [("steps", 0), ("layers", -1), ("learning_rate", float("nan")), ("learning_rate", -1.0), ("beta2", 1.0),
     ("schedule", "linear"), ("init", "zeros"), ("examples", 2**31), ("warmup", -1), ("mlp", "yes"),
     ("checkpoint_every", 0)],
)  # fmt: skip
def test_bad_recipes_are_named(field, value):
    with pytest.raises(InputError, match=field) as error:
        replace(TINY, **{field: value})
    assert str(value) in str(error.value)


def test_the_papers_recipes():
    """Sections 7.1, 8.1 and 9.1."""
    sweep, a, d = recipes.SWEEP, recipes.A.recipe, recipes.D.recipe
    assert (sweep.heads, sweep.d_model, sweep.steps, sweep.batch_size, sweep.examples) == (8, 128, 10_000, 512, 2**20)
    assert (a.layers, a.heads, a.d_model, a.steps, a.batch_size, a.examples) == (12, 1, 128, 24_000, 128, 2**18)
    assert (d.layers, d.heads, d.d_model, d.head_dim, d.mlp) == (24, 1, 512, 16, False)
    assert (d.steps, d.batch_size, d.examples, d.checkpoint_every) == (6_400, 256, 2**18, 80)
    assert d.steps // d.steps_per_epoch == 800
    for recipe in (sweep, a, d):
        assert (recipe.learning_rate, recipe.weight_decay, recipe.final_steps) == (1e-3, 0.1, 100)
    assert [setup.seeds for setup in (recipes.A, recipes.B, recipes.C, recipes.D)] == [(0,), (1,), (2,), (0,)]
    assert [setup.problem.hops for setup in (recipes.A, recipes.B, recipes.C, recipes.D)] == [3, 3, 3, 4]
    assert recipes.A.recipe == recipes.B.recipe == recipes.C.recipe


def test_the_schedule():
    recipe = replace(TINY, steps=100, warmup=10, learning_rate=1.0, schedule="constant")
    assert [Plan(recipe).learning_rate(step) for step in (0, 4, 9, 50, 99)] == [0.1, 0.5, 1.0, 1.0, 1.0]
    cosine = Plan(replace(recipe, schedule="cosine", warmup=0))
    assert [cosine.learning_rate(step) for step in (0, 50)] == pytest.approx([1.0, 0.5])
    assert 0 < cosine.learning_rate(99) < 0.001
    trapezoid = Plan(replace(recipe, schedule="trapezoid", warmup=0))
    rates = [trapezoid.learning_rate(step) for step in (0, 70, 85, 99)]
    assert rates == pytest.approx([1.0, 1.0, 0.5, 1 / 30])


def test_bf16_and_fp32_learn_the_same():
    """bf16 rounds; what is learned must agree to that rounding."""
    losses = []
    for precision in ("fp32", "bf16"):
        ensemble = Ensemble(PROBLEM, TINY, [4, 5], Engine(threads=1, models_at_once=2, precision=precision))
        data = Data(PROBLEM, TINY, [4, 5])
        losses.append(torch.stack([ensemble.update(data.training(step), [1e-2] * 2) for step in range(40)]))
    assert losses[1].dtype == torch.float32
    assert 0 < (losses[0] - losses[1]).abs().max() < 0.05
    assert losses[0][-5:].mean() < losses[0][:5].mean()


def test_the_engine_keeps_what_is_given_and_names_a_missing_device():
    setup = Setup("tiny", PROBLEM, TINY)
    engine = EngineChoice(device="cpu", threads=1, precision="bf16").engine(setup)
    assert (engine.device, engine.threads, engine.precision, engine.compiled) == ("cpu", 1, "bf16", False)
    with pytest.raises(InputError, match="nonsense"):
        EngineChoice(device="nonsense").engine(setup)
    with pytest.raises(InputError, match="threads"):
        EngineChoice(threads=0).engine(setup)


def test_the_papers_largest_ensemble_goes_through_a_cpu_in_parts():
    """8 models x batch 512 x 44 positions at once would take some 14 GB of activations; one at a time takes 2."""
    largest = replace(recipes.BY_NAME["sweep"], seeds=tuple(range(8)))
    assert largest.problem.hops == 5
    assert EngineChoice(device="cpu").engine(largest).models_at_once == 1


@pytest.mark.slow
def test_the_papers_largest_ensemble_trains_in_16_gib():
    """8 models, 8 layers, batch 512, D = 5, in a process of its own.

    One step of two of them: with the engine of all eight they come one after the other, and the other six add no more
    than their weights, gradients and moments, 0.2 GB.
    """
    program = (
        "import resource\n"
        "from dataclasses import replace\n"
        "from hopscope.paper.recipes import BY_NAME\n"
        "from hopscope.training.data import Data\n"
        "from hopscope.training.engine import EngineChoice\n"
        "from hopscope.training.ensemble import Ensemble\n"
        "setup = replace(BY_NAME['sweep'], seeds=tuple(range(8)))\n"
        "engine = EngineChoice(device='cpu', precision='fp32', compiled=False).engine(setup)\n"
        "problem, recipe, seeds = setup.problem, setup.recipe, setup.seeds[:2]\n"
        "ensemble, data = Ensemble(problem, recipe, seeds, engine), Data(problem, recipe, seeds)\n"
        "assert ensemble.update(data.training(0), [1e-3] * 2).isfinite().all()\n"
        "ensemble.evaluate(data.validation(1))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert int(shown) < 15 * 2**20  # kilobytes


@pytest.mark.slow
@pytest.mark.skipif(not _can_compile(), reason="torch.compile needs a C++ compiler and Python's headers")
@pytest.mark.filterwarnings("default")
def test_compiled_and_plain_steps_agree():
    """In a process of its own: the shape checks of the tests and torch.compile do not mix."""
    program = (
        "import sys, torch; sys.path.insert(0, sys.argv[1]); from test_training_run import *\n"
        "found, losses = [], []\n"
        "for compiled in (False, True):\n"
        "    ensemble = Ensemble(PROBLEM, TINY, [4, 5], Engine(models_at_once=2, compiled=compiled))\n"
        "    data = Data(PROBLEM, TINY, [4, 5])\n"
        "    first = ensemble.update(data.training(0), [1e-2] * 2)\n"
        "    (part,) = ensemble._parts\n"
        "    gradients = [moments['exp_avg'] for moments in part._state.values()]\n"
        "    found.append([each.clone() for each in (first, *gradients)])\n"
        "    losses.append(torch.stack([ensemble.update(data.training(step), [1e-2] * 2) for step in range(1, 20)]))\n"
        "assert len(found[0]) > 10\n"
        "for plain, fast in zip(*found, strict=True):\n"
        "    assert (plain - fast).abs().max() <= 3e-6 * max(1.0, float(plain.abs().max()))\n"
        "torch.testing.assert_close(*losses, rtol=1e-3, atol=1e-4)\n"
        "compiled_pieces = torch._dynamo.utils.counters['stats']['unique_graphs']\n"
        "assert compiled_pieces > 0, 'nothing was compiled'\n"
    )
    subprocess.run([sys.executable, "-c", program, str(Path(__file__).parent)], check=True)


def test_every_held_out_sequence_is_evaluated_once_however_many_together(monkeypatch, tmp_path):
    setup = Setup("run", PROBLEM, replace(TINY, steps=1), (0, 1))
    run = trainer.train(setup, tmp_path / "run", engine=ENGINE)
    errors = {}
    for at_once in (1, 64, 100, 256):
        monkeypatch.setattr(trainer, "_HELD_OUT_AT_ONCE", at_once)
        errors[at_once] = trainer.held_out_errors(run, 100)
    batch = held_out(PROBLEM, 100)
    with torch.no_grad():
        answers = run.transformer()(batch.inputs.expand(2, *batch.inputs.shape))
    alone = squared_errors(answers, batch.targets, PROBLEM.symbol_dim)
    for one in errors.values():
        torch.testing.assert_close(one, alone, rtol=1e-5, atol=1e-6)
