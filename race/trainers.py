"""Our trainer against a plain one, on the recipe of transformer A: same tensors, same updates, one run.

    python race/trainers.py [--seconds 60] [--json]

The rival is GPT-2 as people write it: one model, torch.nn modules, fused scaled-dot-product attention, fp32, AdamW, a
Python loop. First both train in fp32 for 100 steps on the same batches from the same weights and must agree; then each
is timed in turns, so that a machine that slows down slows both.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hopscope import own_process
from hopscope.paper import recipes
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.data import Data
from hopscope.training.engine import Engine, available_cores, using_threads
from hopscope.training.ensemble import Ensemble
from hopscope.training.plan import Plan
from hopscope.training.precision import best_precision
from hopscope.training.recipe import Recipe


class PlainBlock(nn.Module):
    """A GPT-2 block."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x: Tensor) -> Tensor:
        """The residual stream after this block."""
        batch, pos, d = x.shape
        q, k, v = (
            part.view(batch, pos, self.heads, d // self.heads).transpose(1, 2)
            for part in self.qkv(self.norm_1(x)).split(d, dim=-1)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, pos, d))
        return x + self.down(F.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class PlainGPT2(nn.Module):
    """A GPT-2 that reads vectors."""

    def __init__(self, problem: RetrievalProblem, recipe: Recipe) -> None:
        super().__init__()
        self.reads = problem.chains
        self.embed = nn.Linear(problem.input_dim, recipe.d_model)
        self.blocks = nn.ModuleList(PlainBlock(recipe.d_model, recipe.heads) for _ in range(recipe.layers))
        self.norm = nn.LayerNorm(recipe.d_model)
        self.read = nn.Linear(recipe.d_model, problem.target_dim)

    def forward(self, x: Tensor) -> Tensor:
        """Answers at the queries."""
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.read(self.norm(x))[:, -self.reads :]

    @torch.no_grad()
    def take_weights(self, ours: dict[str, Tensor]) -> None:
        """Start from the weights of our model 0."""

        def set_linear(linear: nn.Linear, *names: str) -> None:
            linear.weight.copy_(torch.cat([ours[f"{name}.weight"][0].T for name in names]))
            linear.bias.copy_(torch.cat([ours[f"{name}.bias"][0, 0] for name in names]))

        set_linear(self.embed, "embed")
        set_linear(self.read, "read")
        for number, block in enumerate(self.blocks):
            assert isinstance(block, PlainBlock)
            prefix = f"blocks.{number}"
            set_linear(block.qkv, *(f"{prefix}.attention.{part}" for part in ("query", "key", "value")))
            set_linear(block.out, f"{prefix}.attention.out")
            set_linear(block.up, f"{prefix}.mlp.up")
            set_linear(block.down, f"{prefix}.mlp.down")


class PlainTrainer:
    """The loop as people write it."""

    def __init__(self, problem: RetrievalProblem, recipe: Recipe, weights: dict[str, Tensor]) -> None:
        self.data = Data(problem, recipe, [0])
        self.model = PlainGPT2(problem, recipe)
        self.model.take_weights(weights)
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay
        )

    def step(self, number: int) -> float:
        """One update."""
        batch = self.data.training(number)
        loss = F.mse_loss(self.model(batch.inputs[0]), batch.targets[0])
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return loss.item()


class OurTrainer:
    """Our ensemble of one."""

    def __init__(self, problem: RetrievalProblem, recipe: Recipe, engine: Engine) -> None:
        self.plan = Plan(recipe)
        self.data = Data(problem, recipe, [0])
        self.ensemble = Ensemble(problem, recipe, [0], engine)

    def step(self, number: int) -> float:
        """One update."""
        losses = self.ensemble.update(self.data.training(number), self.plan.learning_rate(number))
        return losses.mean().item()


def same_losses(problem: RetrievalProblem, recipe: Recipe, engine: Engine, steps: int) -> float:
    """Largest relative difference of the two losses over `steps` fp32 updates."""
    ours = OurTrainer(problem, recipe, replace(engine, precision="fp32", compiled=False))
    plain = PlainTrainer(problem, recipe, ours.ensemble.weights())
    worst = 0.0
    for number in range(steps):
        one, other = ours.step(number), plain.step(number)
        worst = max(worst, abs(one - other) / other)
    return worst


def race(runners: dict[str, Callable[[int], float]], seconds: float) -> dict[str, list[float]]:
    """Seconds a step of each, taken in turns of a few steps for about `seconds` in all."""
    taken: dict[str, list[float]] = {name: [] for name in runners}
    number, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for name, step in runners.items():
            start = time.perf_counter()
            for offset in range(3):
                step(number + offset)
            taken[name].append((time.perf_counter() - start) / 3)
        number += 3
    return taken


def main() -> None:
    """Check, race, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="of racing [default: 60]")
    parser.add_argument("--check-steps", type=int, default=100, help="fp32 steps that must agree [default: 100]")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    own_process.claim()
    own_process.settle()
    problem, recipe = RetrievalProblem(hops=3), recipes.A.recipe
    precision = best_precision("cpu")
    engine = Engine(threads=available_cores(), precision=precision, compiled=True)
    with using_threads(engine):
        difference = same_losses(problem, recipe, engine, arguments.check_steps)
        if not difference < 1e-2:
            raise SystemExit(f"the two trainers disagree: relative difference {difference:.2e}")
        began = time.perf_counter()
        ours = OurTrainer(problem, recipe, engine)
        ours.step(0)
        compile_seconds = time.perf_counter() - began
        plain = PlainTrainer(problem, recipe, ours.ensemble.weights())
        plain.step(0)
        taken = race({"plain": plain.step, "hopscope": ours.step}, arguments.seconds)
    plain_step, our_step = (statistics.median(taken[name]) for name in ("plain", "hopscope"))
    result = {
        "recipe": "transformer A: 12 layers, 1 head, d_model 128, batch 128",
        "machine": {"threads": engine.threads, "cpu": torch.backends.cpu.get_cpu_capability()},
        "precision": engine.precision,
        "agree_within": difference,
        "plain_steps_per_second": 1 / plain_step,
        "hopscope_steps_per_second": 1 / our_step,
        "compile_seconds": compile_seconds,
        "speedup": plain_step / our_step,
        "speedup_whole_run": plain_step / (our_step + compile_seconds / recipe.steps),
    }
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"{result['recipe']}; {engine.describe()}")
    print(f"fp32 losses agree over {arguments.check_steps} steps within {difference:.1e} (relative)")
    print(f"plain GPT-2, eager, fp32   {1 / plain_step:7.2f} steps/s")
    print(f"hopscope                   {1 / our_step:7.2f} steps/s   {plain_step / our_step:.2f} times as fast")
    print(f"compiling took {compile_seconds:.0f} s: over {recipe.steps} steps {result['speedup_whole_run']:.2f} times")


if __name__ == "__main__":
    main()
