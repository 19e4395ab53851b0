"""A run: its folder tells all of it, it is resumed to the bit, and folders and recipes that do not fit are refused."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from killing import contents
from small_runs import PROBLEM, TINY

from hopscope.errors import InputError
from hopscope.lab import train
from hopscope.training.execution import REFERENCE
from hopscope.training.run import RunFolder


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
