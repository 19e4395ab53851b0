"""Updates as graphs: what is recorded once does every later update too, on other batches and at other rates."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training import ensemble_part, graphed
from hopscope.training.data import Data
from hopscope.training.ensemble import Ensemble
from hopscope.training.execution import REFERENCE, Execution
from hopscope.training.head_dropout import head_scales
from hopscope.training.recipe import Recipe
from hopscope.training.setup import Setup

PROBLEM = RetrievalProblem(hops=2)
RECIPE = Recipe(
    layers=2, heads=2, d_model=16, steps=8, batch_size=4, examples=None, clip=1.0, hop_weights=(1.0, 0.5),
)  # fmt: skip
RATE = 2.0**-10
"""The same number in fp32, in which a graph holds it."""


class Recorded:
    """A graph that a CPU can do: the work is what was given the first time, and nothing that it closed over changes."""

    made = 0

    def __init__(self, work, changed, device):
        self.work = work
        Recorded.made += 1

    def __call__(self):
        return self.work()


def states(seeds, rates, *, execution, device="cpu", recipe=RECIPE, scaled=()):
    """Losses of every update, and the state after the last."""
    ensemble, data = Ensemble(PROBLEM, recipe, seeds, execution), Data(PROBLEM, recipe, seeds, device)
    losses = []
    for step, by_model in enumerate(rates):
        left_out = head_scales(list(seeds), step, 2, 2, 0.5) if step in scaled else None
        losses.append(ensemble.update(data.training(step), by_model, left_out).cpu())
    return torch.stack(losses), {name: tensor.cpu() for name, tensor in ensemble.state().items()}


RATES = {
    "one": [[RATE], [RATE], [RATE / 2], [RATE], [0.0]],
    "alike": [[RATE] * 3, [RATE / 4] * 3, [RATE] * 3],
    "each its own": [[RATE] * 3, [RATE, 0.0, RATE / 2], [RATE, RATE / 4, 0.0], [RATE / 2] * 3, [0.0, RATE / 2, RATE]],
}


@pytest.mark.parametrize("rates", RATES.values(), ids=RATES)
@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
def test_a_graph_does_what_is_done_without(rates, optimiser, monkeypatch):
    """To the bit; Muon, whose rate is a number, is never recorded."""
    monkeypatch.setattr(ensemble_part, "CudaGraph", Recorded)
    monkeypatch.setattr(Recorded, "made", 0)
    seeds, recipe = tuple(range(len(rates[0]))), Recipe(**{**vars(RECIPE), "optimiser": optimiser})
    plain = states(seeds, rates, execution=REFERENCE, recipe=recipe, scaled=(1,))
    monkeypatch.setattr(ensemble_part, "can_record", lambda device: True)
    monkeypatch.setattr(ensemble_part, "kernels_used", lambda *given: (False, False))
    graph = states(seeds, rates, execution=replace(REFERENCE, kernels=True), recipe=recipe, scaled=(1,))
    assert torch.equal(plain[0], graph[0])
    assert all(torch.equal(plain[1][name], graph[1][name]) for name in plain[1])
    kinds = len({min(one) == max(one) for step, one in enumerate(rates) if any(one) and step != 1})
    assert Recorded.made == (kinds if optimiser == "adamw" else 0)


def test_making_a_graph_leaves_everything_as_it_was(monkeypatch):
    """Rehearsals are undone. On a GPU recording runs nothing; here it runs the work once."""
    here = SimpleNamespace(wait_stream=lambda other: None)
    for name in ("device", "stream", "graph"):
        monkeypatch.setattr(torch.cuda, name, lambda *given: nullcontext())
    monkeypatch.setattr(torch.cuda, "Stream", lambda *given: here)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: here)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: SimpleNamespace(replay=lambda: None))
    weight, moment, calls = torch.nn.Parameter(torch.ones(2)), torch.zeros(2), []

    def work():
        with torch.no_grad():
            weight.mul_(2)
            moment.add_(1)
        calls.append(weight.tolist())
        return weight.sum()

    graphed.CudaGraph(work, [weight, moment], torch.device("cuda"))
    assert len(calls) == graphed._REHEARSALS + 1
    assert (weight.tolist(), moment.tolist()) == ([2.0, 2.0], [1.0, 1.0])


def test_a_gpu_records_its_updates_and_a_cpu_does_not(monkeypatch):
    monkeypatch.setattr(Execution, "check", lambda self: None)
    monkeypatch.setattr("hopscope.training.execution.best_precision", lambda device: "bf16")
    setup = Setup("one", PROBLEM, RECIPE)
    assert Execution(device="cuda").resolve(setup).kernels


@pytest.mark.skipif(not torch.cuda.is_available(), reason="wants a GPU")
@pytest.mark.parametrize("mlp", [False, True])
def test_on_a_gpu(mlp):
    """Graphs give the losses of updates launched one by one there, and those of a CPU."""
    recipe = Recipe(**{**vars(RECIPE), "mlp": mlp})
    rates = [[RATE] * 3] * 20 + [[RATE, 0.0, RATE / 4]] * 20
    cpu = states((1, 2, 3), rates, execution=REFERENCE, recipe=recipe)
    on_gpu = replace(REFERENCE, device="cuda")
    gpu, graph = (
        states((1, 2, 3), rates, execution=replace(on_gpu, kernels=kernels), device="cuda", recipe=recipe)
        for kernels in (False, True)
    )
    assert torch.allclose(gpu[0], graph[0], atol=1e-4)
    assert torch.allclose(gpu[0], cpu[0], atol=1e-4)
