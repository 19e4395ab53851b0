"""What a machine can do and what it lacks: an execution that fits, sizes that do not, a run from another machine."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_runs import ONE_HOP, TINIEST, half_trained

from hopscope.lab import train
from hopscope.paper import recipes
from hopscope.training import execution as executions
from hopscope.training.ensemble import Ensemble
from hopscope.training.execution import REFERENCE, Execution, least_memory, models_at_once
from hopscope.training.recipe import Setup
from hopscope.training.run import _RUN, RunFolder


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
    assert "the run goes on with" in caplog.text


def test_memory_leaves_out_patterns_that_kernels_compute_again(monkeypatch):
    """Fused attention computes patterns again in the backward pass: with them a run that fits would be refused."""
    setup = Setup("run", ONE_HOP, TINIEST, (0, 1))
    plain_way = least_memory(setup, REFERENCE)
    monkeypatch.setattr("hopscope.training.execution.kernels_used", lambda *given: (True, False))
    fused = least_memory(setup, replace(REFERENCE, kernels=True))
    rows, patterns = TINIEST.batch_size * ONE_HOP.sequence_length, TINIEST.heads * ONE_HOP.sequence_length
    assert plain_way - fused == 2 * TINIEST.layers * rows * patterns * 4


def test_the_papers_largest_ensemble_goes_through_a_cpu_in_parts():
    """8 models x batch 512 x 44 positions at once would take some 14 GB of activations; one at a time takes 2."""
    largest = replace(recipes.BY_NAME["sweep"], seeds=tuple(range(8)))
    assert largest.problem.hops == 5
    assert models_at_once(largest.problem, largest.recipe, 8, Execution(device="cpu").resolve(largest)) == 1


@pytest.mark.parametrize(
    ("said", "threads"),
    [(None, 4), ("3", 3), ("64", 4), (" 2,1 ", 2), ("0", 4), ("many", 4)],
)
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
