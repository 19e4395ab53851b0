"""Precision follows from the processor; settings of the whole process are made in processes of our own alone."""

from __future__ import annotations

import os

import pytest
import torch
from small_runs import flushes

from hopscope.kernels import precision
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.processes import in_processes
from hopscope.training.ensemble import Ensemble
from hopscope.training.execution import Execution
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.trainer import train

SETUP = Setup("tiny", RetrievalProblem(hops=1), Recipe(layers=1, heads=1, d_model=8, steps=2, batch_size=2))


def of_processor(monkeypatch: pytest.MonkeyPatch, *flags: str, intel: bool = False) -> None:
    monkeypatch.setattr(precision, "is_intel", lambda: intel)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: "avx512_bf16" in flags, raising=False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: "amx_bf16" in flags, raising=False)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [((), "fp32"), (("avx2",), "fp32"), (("avx512_bf16",), "bf16"), (("amx_bf16", "avx512_bf16"), "bf16")],
)
def test_precision_follows_from_the_processor(monkeypatch, flags, expected):
    of_processor(monkeypatch, *flags)
    assert Execution(device="cpu").resolve(SETUP).precision == expected
    assert Execution(device="cpu", precision="fp32").resolve(SETUP).precision == "fp32"
    assert Execution(device="cpu", precision="bf16").resolve(SETUP).precision == "bf16"


def test_intels_avx512_does_not_count_as_bf16_hardware(monkeypatch):
    """It multiplies bf16 at half the rate of fp32: a processor that hides its AMX is quicker in fp32."""
    of_processor(monkeypatch, "avx512_bf16", intel=True)
    assert precision.bf16_unit("cpu") is None
    of_processor(monkeypatch, "amx_bf16", "avx512_bf16", intel=True)
    assert precision.bf16_unit("cpu") == "amx_bf16"


def test_bf16_of_a_gpu_is_not_emulated(monkeypatch):
    asked = []
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda including_emulation=True: asked.append(including_emulation)
    )
    assert precision.best_precision("cuda:0") == "fp32"
    assert asked == [False]
    assert precision.best_precision("mps") == "fp32"


def all_flush(small: torch.Tensor) -> list[bool]:
    """Whether every thread of torch's that has a part in it rounds the smallest numbers to zero."""
    return (small * 1 == 0).unique().tolist()


@pytest.mark.parametrize("threads", sorted({1, min(2, os.cpu_count() or 1)}))
def test_a_run_rounds_denormals_to_zero_wherever_it_is_trained(monkeypatch, tmp_path, threads):
    """As on the command line, or it would not end in the same bits; what is computed before and after does not."""
    small, seen, plain = torch.full((2**18,), 1e-40), [], Ensemble.update

    def update(*given: object) -> object:
        seen.append((all_flush(small), torch.get_num_threads()))
        return plain(*given)

    monkeypatch.setattr(Ensemble, "update", update)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert all_flush(small) == [False]  # and torch's threads are there
        train(SETUP, tmp_path, execution=Execution(device="cpu", threads=threads, precision="fp32"))
        assert seen == [([True], threads)] * 2
        assert (all_flush(small), torch.get_num_threads()) == ([False], threads)
    finally:
        torch.set_num_threads(before)


@pytest.mark.slow
def test_workers_round_denormals_to_zero():
    before = flushes()
    assert in_processes(flushes, [()], 1) == [True]
    assert flushes() == before
