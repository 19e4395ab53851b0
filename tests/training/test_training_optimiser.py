"""Updates: AdamW against torch's class, an update on another device, and as a CUDA graph."""

from __future__ import annotations

from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from hopscope.errors import InputError
from hopscope.paper.recipes import PLAIN
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training import ensemble as ensembles
from hopscope.training import optimiser
from hopscope.training.data import Data, squared_errors
from hopscope.training.ensemble import Ensemble
from hopscope.training.execution import REFERENCE
from hopscope.training.pruning import head_scales
from hopscope.training.recipe import Recipe

RECIPE = replace(PLAIN, beta1=0.8, beta2=0.9, weight_decay=0.3)


def fresh(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    return {moment: torch.zeros_like(weight) for moment in optimiser.MOMENTS}


@pytest.mark.parametrize("as_given", [float, torch.tensor])
def test_adamw_gives_the_bits_of_torchs_class(as_given):
    """At a rate that changes, with one weight that never has a gradient and one that is not AdamW's."""
    draw = torch.Generator().manual_seed(0)
    ours = [torch.randn(2, 5, 3, generator=draw), torch.randn(2, 7, generator=draw), torch.randn(4, generator=draw)]
    theirs = [weight.clone().requires_grad_() for weight in ours]
    state, updates = {weight: fresh(weight) for weight in ours}, torch.zeros(())
    betas = (RECIPE.beta1, RECIPE.beta2)
    reference = torch.optim.AdamW(theirs[:2], lr=1.0, betas=betas, weight_decay=RECIPE.weight_decay, fused=True)
    for step in range(6):
        for number, (weight, other) in enumerate(zip(ours, theirs, strict=True)):
            weight.grad = None if number == 1 else torch.randn(weight.shape, generator=draw)
            other.grad = None if weight.grad is None else weight.grad.clone()
        rate = 0.1 / (1 + step)
        reference.param_groups[0]["lr"] = as_given(rate)
        reference.step()
        optimiser.adamw(ours[:2], state, updates, as_given(rate), RECIPE)
        assert all(weight.equal(other) for weight, other in zip(ours, theirs, strict=True))
        moments = reference.state[theirs[0]]
        assert all(state[ours[0]][name].equal(moments[name]) for name in optimiser.MOMENTS)
    assert int(updates) == 6


def test_without_a_gradient_nothing_moves():
    weight, updates = torch.ones(3), torch.zeros(())
    optimiser.adamw([weight], {weight: fresh(weight)}, updates, 0.1, RECIPE)
    assert weight.equal(torch.ones(3))
    assert not updates


PROBLEM = RetrievalProblem(hops=2)


def test_gains_of_norms_and_biases_need_not_decay():
    """As torch's class with two groups of weights does it."""
    recipe = replace(RECIPE, layers=1, heads=2, d_model=8, mlp=True, batch_size=4, clip=None, decay_all=False)
    ensemble, batch = Ensemble(PROBLEM, recipe, [1], REFERENCE), Data(PROBLEM, recipe, [1]).training(0)
    theirs = deepcopy(ensemble._parts[0][1].transformer)
    spared = {name for name, _ in theirs.named_parameters() if "norm" in name or name.endswith("bias")}
    groups = [
        {
            "params": [weight for name, weight in theirs.named_parameters() if (name in spared) is kept],
            "weight_decay": decay,
        }
        for kept, decay in ((False, 0.3), (True, 0.0))
    ]
    reference = torch.optim.AdamW(groups, lr=0.1, betas=(0.8, 0.9), fused=True)
    for _ in range(3):
        reference.zero_grad()
        squared_errors(theirs(batch.inputs), batch.targets, PROBLEM.symbol_dim).mean().backward()
        reference.step()
        ensemble.update(batch, [0.1])
    for name, weight in ensemble.weights().items():
        torch.testing.assert_close(weight, theirs.state_dict()[name], rtol=1e-5, atol=1e-6)


SMALL = Recipe(
    layers=2, heads=2, d_model=16, steps=8, batch_size=4, examples=None, clip=1.0, hooks="small_runs:Weighted",
)  # fmt: skip
RATE = 2.0**-10
"""The same number in fp32, in which a graph holds it."""


@pytest.mark.parametrize("wrong", ["no.such.module:Muon", "math:Muon", "os:path", "collections:OrderedDict"])
def test_hooks_that_cannot_be_loaded_are_refused(wrong):
    with pytest.raises(InputError, match=r"cannot be loaded|must name a subclass of hs\.TrainingHooks"):
        Ensemble(PROBLEM, replace(SMALL, hooks=wrong), (1,), REFERENCE)


def test_an_update_stays_on_its_device(monkeypatch):
    """On torch's device without memory, where operations on tensors of two devices fail as they do on a GPU."""
    monkeypatch.setattr(torch, "autocast", lambda *given, **named: nullcontext())
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *given: False)
    monkeypatch.setattr(ensembles, "adamw", lambda *given: None)
    elsewhere = replace(REFERENCE, device="meta")
    ensemble, data = Ensemble(PROBLEM, SMALL, (1, 2, 3), elsewhere), Data(PROBLEM, SMALL, (1, 2, 3), "meta")
    for scales in (None, head_scales([1, 2, 3], 0, SMALL.layers, SMALL.heads, 0.5)):
        assert ensemble.update(data.training(0), [1e-3, 0.0, 1e-3], scales).device.type == "meta"
    assert {tensor.device.type for tensor in ensemble.state().values()} == {"meta"}
    with pytest.raises(RuntimeError, match="device"):  # the control: a batch of another device
        ensemble.update(Data(PROBLEM, SMALL, (1, 2, 3), "cpu").training(0), [1e-3] * 3)


class Recorded:
    """A graph that a CPU can do: the work is what was given the first time, and nothing that it closed over changes."""

    made = 0

    def __init__(self, work, changed, device):
        self.work = work
        Recorded.made += 1

    def __call__(self):
        return self.work()


def states(rates, *, execution, device="cpu", recipe=SMALL, scaled=()):
    """Losses of every update, and the state after the last."""
    seeds = list(range(len(rates[0])))
    ensemble, data = Ensemble(PROBLEM, recipe, seeds, execution), Data(PROBLEM, recipe, seeds, device)
    losses = []
    for step, by_model in enumerate(rates):
        dropped = head_scales(seeds, step, 2, 2, 0.5) if step in scaled else None
        losses.append(ensemble.update(data.training(step), by_model, dropped).cpu())
    return torch.stack(losses), {name: tensor.cpu() for name, tensor in ensemble.state().items()}


RATES = {
    "one": [[RATE], [RATE], [RATE / 2], [RATE], [0.0]],
    "alike": [[RATE] * 3, [RATE / 4] * 3, [RATE] * 3],
    "each its own": [[RATE] * 3, [RATE, 0.0, RATE / 2], [RATE, RATE / 4, 0.0], [RATE / 2] * 3, [0.0, RATE / 2, RATE]],
}


@pytest.mark.parametrize("rates", RATES.values(), ids=RATES)
def test_a_recorded_update_is_the_same_to_the_bit(rates, monkeypatch):
    monkeypatch.setattr(ensembles, "CudaGraph", Recorded)
    monkeypatch.setattr(Recorded, "made", 0)
    recorded = replace(SMALL, hooks=None)
    plain = states(rates, execution=REFERENCE, recipe=recorded, scaled=(1,))
    monkeypatch.setattr(ensembles, "can_record", lambda device: True)
    monkeypatch.setattr(ensembles, "kernels_used", lambda *given: (False, False))
    graph = states(rates, execution=replace(REFERENCE, kernels=True), recipe=recorded, scaled=(1,))
    assert torch.equal(plain[0], graph[0])
    assert all(torch.equal(plain[1][name], graph[1][name]) for name in plain[1])
    assert Recorded.made == len({min(rate) == max(rate) for step, rate in enumerate(rates) if any(rate) and step != 1})


def test_recording_a_graph_leaves_tensors_as_they_were(monkeypatch):
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

    optimiser.CudaGraph(work, [weight, moment], torch.device("cuda"))
    assert len(calls) == optimiser._REHEARSALS + 1
    assert (weight.tolist(), moment.tolist()) == ([2.0, 2.0], [1.0, 1.0])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="wants a GPU")
@pytest.mark.parametrize("mlp", [False, True])
def test_on_a_gpu(mlp):
    """Graphs give the losses of updates launched one by one there, and those of a CPU."""
    recipe = replace(SMALL, mlp=mlp, hooks=None)
    rates = [[RATE] * 3] * 20 + [[RATE, 0.0, RATE / 4]] * 20
    cpu = states(rates, execution=REFERENCE, recipe=recipe)
    for how in ({}, {"kernels": True}, {"kernels": True, "compiled": True}):
        execution = replace(REFERENCE, device="cuda", **how)
        gpu = states(rates, execution=execution, device="cuda", recipe=recipe)
        assert torch.allclose(gpu[0], cpu[0], atol=1e-4)
