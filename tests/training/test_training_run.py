"""A run: its folder says everything of it, it is resumed to the bit, and what the machine lacks is refused."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from killing import contents
from small_runs import ONE_HOP, PROBLEM, TINIEST, TINY, half_trained

from hopscope.errors import InputError
from hopscope.lab.run import train
from hopscope.paper import recipes
from hopscope.training import execution as executions
from hopscope.training.ensemble import Ensemble
from hopscope.training.execution import REFERENCE, Execution, least_memory, models_at_once
from hopscope.training.recipe import Setup
from hopscope.training.run import _RUN, RunFolder


def test_a_run_folder_has_metrics_checkpoints_and_result(tmp_path):
    run = train(TINY, PROBLEM, tmp_path / "run", seeds=[1, 2, 3], execution=REFERENCE)
    metrics = run.metrics
    assert metrics.steps.tolist() == [5, 10, 15, 20, 25, 30, 34, 35, 36, 37, 38, 39, 40]
    assert metrics.partial_losses.shape == (13, 3, 2)
    assert metrics.validation_loss == pytest.approx(metrics.partial_losses.mean(axis=2))
    assert metrics.train_loss == pytest.approx(metrics.train_partial_losses.mean(axis=2))
    assert sorted(run.checkpoints) == [0, 20, 40]
    for model, result in enumerate(run.result.models):
        assert result.final_validation_loss == pytest.approx(metrics.validation_loss[-7:, model].mean())
        assert result.final_partial_losses == pytest.approx(metrics.partial_losses[-7:, model].mean(axis=0))
        assert 0 < result.held_out_loss < 2
    reopened = RunFolder(tmp_path / "run")
    assert (reopened.problem, reopened.recipe, reopened.seeds) == (PROBLEM, TINY, (1, 2, 3))
    assert len(set(reopened.model_hashes)) == 3
    assert not torch.equal(reopened.transformer(0).embed.weight, reopened.transformer().embed.weight)


def test_a_finished_run_is_reused(tmp_path):
    train(TINY, PROBLEM, tmp_path / "run", execution=REFERENCE)
    before = contents(tmp_path / "run")
    (tmp_path / "run" / "state.safetensors").unlink()  # nothing of it is needed any more
    train(TINY, PROBLEM, tmp_path / "run")
    del before["state.safetensors"]
    assert contents(tmp_path / "run") == before


def test_a_folder_of_another_run_is_refused(tmp_path):
    train(TINY, PROBLEM, tmp_path / "run", execution=REFERENCE)
    before = contents(tmp_path / "run")
    for recipe, problem, seeds, words in (
        (replace(TINY, steps=41), PROBLEM, [0], "steps = 40, not 41"),
        (TINY, replace(PROBLEM, hops=3), [0], "hops = 2, not 3"),
        (TINY, PROBLEM, [1], r"seeds = \[0\], not \[1\]"),
    ):
        with pytest.raises(InputError, match=words):
            train(recipe, problem, tmp_path / "run", seeds=seeds)
    assert contents(tmp_path / "run") == before


def test_a_damaged_checkpoint_is_named_and_one_that_is_not_there(tmp_path):
    run = train(TINY, PROBLEM, tmp_path / "run", execution=REFERENCE)
    newest = run.checkpoints[40]
    newest.write_bytes(newest.read_bytes()[:-100])
    with pytest.raises(InputError, match="step-000040"):
        run.transformer()
    with pytest.raises(InputError, match="nearest is at step 20"):
        run.transformer(21)


def test_a_run_has_one_writer_whose_lock_ends_with_its_process(tmp_path):
    run = train(TINY, PROBLEM, tmp_path / "run", execution=REFERENCE)
    hold = (
        "import sys; from hopscope.training.run import RunFolder\n"
        "from pathlib import Path\n"
        "with RunFolder.writing(Path(sys.argv[1])): print('held', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, run.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        other.stdout.readline()
        with pytest.raises(InputError, match=r"another process is training in .*run; wait for it, or stop it"):
            RunFolder.writing(run.path, patience=0.1).__enter__()
        other.kill()
    with RunFolder.writing(run.path, patience=0.0), pytest.raises(InputError, match="another process"):
        RunFolder.writing(run.path, patience=0.0).__enter__()
    assert (run.path / ".writer").read_bytes() == b""


def test_a_diverged_model_is_written_as_null(tmp_path):
    run = train(replace(TINY, learning_rate=1e30, clip=None, warmup=0), PROBLEM, tmp_path / "run", execution=REFERENCE)
    assert '"validation_loss": null' in (run.path / "metrics.jsonl").read_text()
    assert np.isnan(run.metrics.validation_loss[-1, 0])
    assert run.result.models[0].final_validation_loss is None
    assert run.result.models[0].final_partial_losses == (None, None)


def test_a_run_from_another_machine_goes_on_in_its_precision(tmp_path, monkeypatch, caplog):
    folder = half_trained(tmp_path / "run", monkeypatch)
    run = RunFolder(folder)
    elsewhere = replace(run.record, execution=replace(REFERENCE, device="cuda:7", threads=512, precision="bf16"))
    _RUN.write(folder / "run.json", elsewhere, run.hash)
    seen = []
    plain_init = Ensemble.__init__
    monkeypatch.setattr(
        Ensemble, "__init__", lambda self, *given: (seen.append(given[-1]), plain_init(self, *given))[1]
    )
    assert train(TINIEST, ONE_HOP, folder).finished
    assert (seen[0].device, seen[0].precision) == ("cpu", "bf16") or torch.cuda.device_count()
    assert "the run continues on" in caplog.text


def test_memory_leaves_out_patterns_that_kernels_compute_again(monkeypatch):
    """Fused attention computes patterns again in the backward pass: with them a run that fits would be refused."""
    setup = Setup("run", ONE_HOP, TINIEST, (0, 1))
    plain_way = least_memory(setup, REFERENCE)
    twice = least_memory(replace(setup, recipe=replace(TINIEST, batch_size=2 * TINIEST.batch_size)), REFERENCE)
    drawn = Ensemble(ONE_HOP, TINIEST, (0,), REFERENCE).weights().values()
    matrices = sum(weight.numel() for weight in drawn if weight.squeeze().dim() == 2)
    assert 2 * plain_way - twice == 16 * 2 * matrices  # a weight, its gradient and its two moments, in both models
    monkeypatch.setattr("hopscope.training.execution.kernels_used", lambda *given: (True, False))
    fused = least_memory(setup, replace(REFERENCE, kernels=True))
    rows, patterns = TINIEST.batch_size * ONE_HOP.sequence_length, TINIEST.heads * ONE_HOP.sequence_length
    assert plain_way - fused == 2 * TINIEST.layers * rows * patterns * 4


def test_the_papers_largest_ensemble_goes_through_a_cpu_in_parts():
    """8 models x batch 512 x 44 positions at once would take some 14 GB of activations; one at a time takes 2."""
    largest = replace(recipes.BY_NAME["sweep"], seeds=tuple(range(8)))
    assert largest.problem.hops == 5
    assert models_at_once(largest.problem, largest.recipe, 8, Execution(device="cpu").resolve(largest)) == 1


@pytest.mark.parametrize(("said", "threads"), [(None, 4), ("3", 3), ("64", 4), (" 2,1 ", 2), ("0", 4), ("many", 4)])
def test_omp_num_threads_lowers_the_number_of_threads(said, threads, monkeypatch, tmp_path):
    """As it may of torch; what is no number is torch's to complain of."""
    monkeypatch.setattr(executions, "available_cores", lambda: 4)
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if said is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", said)
    setup = Setup("run", ONE_HOP, TINIEST)
    assert Execution(device="cpu").resolve(setup).threads == threads
    assert Execution(device="cpu", threads=3).resolve(setup).threads == 3, "who asks gets what is asked for"
