"""Race our trainer against two rivals on the recipe of transformer A or the plain one: same tensors, same updates.

    python race/trainers.py [--recipe a] [--seconds 60] [--json]

The plain rival is GPT-2 as people usually write it: one model, torch.nn modules, fused scaled-dot-product attention,
fp32, AdamW, a Python loop. The careful rival is the same model compiled as a whole, in bf16 where the processor has a
unit for it, with the fused optimiser. First, our trainer and the plain rival train in fp32 for 100 steps on the same
batches from the same weights, and their losses must agree. Then all are timed in turns, so that a machine that slows
down slows all. Compiling is timed separately.

The same turns also time the matrix products of a step with the weights alone, forward and backward, by torch in our
precision and layout. A trainer that multiplies by torch cannot leave these products out.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hopscope import processes
from hopscope.kernels import DTYPES, Precision, bf16_unit
from hopscope.paper import recipes
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.data import Data
from hopscope.training.ensemble import Ensemble
from hopscope.training.execution import Execution, available_cores, using_threads
from hopscope.training.recipe import Recipe
from hopscope.training.schedule import Schedule

_TURN = 10
"""Steps per turn. A trainer finds the caches full of other trainers' data, and refills them in its first step."""


class PlainBlock(nn.Module):
    """A GPT-2 block."""

    def __init__(self, d: int, heads: int, d_head: int, mlp: bool) -> None:
        super().__init__()
        self.heads, self.d_head = heads, d_head
        self.norm_1, self.qkv = nn.LayerNorm(d), nn.Linear(d, 3 * heads * d_head)
        self.out = nn.Linear(heads * d_head, d)
        self.mlp = (
            nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.GELU(approximate="tanh"), nn.Linear(4 * d, d))
            if mlp
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the residual stream after this block."""
        batch, pos, _ = x.shape
        q, k, v = (
            part.view(batch, pos, self.heads, self.d_head).transpose(1, 2)
            for part in self.qkv(self.norm_1(x)).chunk(3, dim=-1)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, pos, -1))
        return x if self.mlp is None else x + self.mlp(x)


class PlainGPT2(nn.Module):
    """A GPT-2 that reads vectors."""

    def __init__(self, problem: RetrievalProblem, recipe: Recipe) -> None:
        super().__init__()
        self.reads = problem.chains
        self.embed = nn.Linear(problem.input_dim, recipe.d_model)
        shape = recipe.architecture(problem)
        self.blocks = nn.ModuleList(
            PlainBlock(shape.d_model, shape.heads, shape.d_head, shape.mlp) for _ in range(shape.layers)
        )
        self.norm = nn.LayerNorm(recipe.d_model)
        self.read = nn.Linear(recipe.d_model, problem.target_dim)

    def forward(self, x: Tensor) -> Tensor:
        """Return the answers at the queries."""
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
            if block.mlp is not None:
                set_linear(block.mlp[1], f"{prefix}.mlp.up")  # type: ignore[arg-type]
                set_linear(block.mlp[3], f"{prefix}.mlp.down")  # type: ignore[arg-type]


class PlainTrainer:
    """A training loop as people usually write it; with `careful`, as people who know torch well write it."""

    def __init__(
        self,
        problem: RetrievalProblem,
        recipe: Recipe,
        weights: dict[str, Tensor],
        careful: bool = False,
        precision: Precision = "fp32",
    ) -> None:
        self.schedule, self.clip = Schedule(recipe), recipe.clip
        self.data = Data(problem, recipe, [0])
        self.model = PlainGPT2(problem, recipe)
        self.model.take_weights(weights)
        self.bf16 = careful and precision == "bf16"
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(),
            lr=recipe.learning_rate,
            betas=(recipe.beta1, recipe.beta2),
            weight_decay=recipe.weight_decay,
            fused=careful,
        )
        self.forward = torch.compile(self.model, dynamic=False) if careful else self.model

    def step(self, number: int) -> float:
        """Make one update, and return its loss."""
        batch = self.data.training(number)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            answers = self.forward(batch.inputs[0])
        loss = F.mse_loss(answers.float(), batch.targets[0])
        self.optimiser.zero_grad()
        loss.backward()
        if self.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimiser.param_groups[0]["lr"] = self.schedule.learning_rates(number)[0]
        self.optimiser.step()
        return loss.item()


class OurTrainer:
    """Our trainer, with an ensemble of one model."""

    def __init__(self, problem: RetrievalProblem, recipe: Recipe, execution: Execution) -> None:
        self.schedule = Schedule(recipe)
        self.data = Data(problem, recipe, [0])
        self.ensemble = Ensemble(problem, recipe, [0], execution)

    def step(self, number: int) -> float:
        """Make one update, and return its loss."""
        losses = self.ensemble.update(self.data.training(number), self.schedule.learning_rates(number))
        return losses.mean().item()


class Products:
    """The matrix products of a step with the weights of its linear maps, without the operations between them."""

    def __init__(self, problem: RetrievalProblem, recipe: Recipe, execution: Execution) -> None:
        shape = recipe.architecture(problem)
        inner, d = shape.heads * shape.d_head, shape.d_model
        mlp = [(d, 4 * d), (4 * d, d)] if shape.mlp else []
        dtype = DTYPES[execution.precision]
        rows, asked = (recipe.batch_size * count for count in (problem.sequence_length, shape.reads))
        block = [(rows, *size) for size in [(d, 3 * inner), (inner, d), *mlp]]
        last = [(rows, d, 2 * inner), *((asked, *size) for size in [(d, inner), (inner, d), *mlp])]
        # Only the queries are answered, so the last block needs only keys and values at all positions.
        self.blocks = [*[_operands(block, dtype)] * (shape.layers - 1), _operands(last, dtype)]

    def step(self, number: int) -> float:
        """Compute the products of one update."""
        for block in self.blocks:
            for x, weight, gradient in block:
                torch.bmm(x, weight)
                torch.bmm(gradient, weight.mT)
                torch.bmm(x.mT, gradient)
        return 0.0


def _operands(maps: list[tuple[int, int, int]], dtype: torch.dtype) -> list[list[Tensor]]:
    """Return random rows, weight and gradient of each map, which is given as (rows, d_in, d_out)."""
    return [
        [torch.randn(1, *size, dtype=dtype) for size in ((rows, d_in), (d_in, d_out), (rows, d_out))]
        for rows, d_in, d_out in maps
    ]


def same_losses(problem: RetrievalProblem, recipe: Recipe, execution: Execution, steps: int) -> float:
    """Return the largest relative difference between our losses and the plain rival's over `steps` fp32 updates."""
    ours = OurTrainer(problem, recipe, replace(execution, precision="fp32", compiled=False))
    plain = PlainTrainer(problem, recipe, ours.ensemble.weights())
    worst = 0.0
    for number in range(steps):
        one, other = ours.step(number), plain.step(number)
        worst = max(worst, abs(one - other) / other)
    return worst


def race(runners: dict[str, Callable[[int], float]], seconds: float) -> dict[str, list[float]]:
    """Return the seconds per step of each runner, timed in turns of a few steps for about `seconds` in total."""
    taken: dict[str, list[float]] = {name: [] for name in runners}
    number, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for name, step in runners.items():
            start = time.perf_counter()
            for offset in range(_TURN):
                step(number + offset)
            taken[name].append((time.perf_counter() - start) / _TURN)
        number += _TURN
    return taken


def main() -> None:
    """Check that the losses agree, race, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds of racing [default: 60]")
    parser.add_argument("--check-steps", type=int, default=100, help="fp32 steps that must agree [default: 100]")
    parser.add_argument("--recipe", choices=["a", "plain"], default="a", help="recipe to train [default: a]")
    parser.add_argument("--threads", type=int, help="threads of all trainers [default: all cores]")
    parser.add_argument(
        "--precision", choices=["auto", "fp32", "bf16"], default="auto", help="our precision [default: auto]"
    )
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    processes.claim_process()
    processes.tune_process()
    setup = recipes.BY_NAME[arguments.recipe]
    problem, recipe = setup.problem, setup.recipe
    threads = arguments.threads or available_cores()
    execution = Execution(device="cpu", threads=threads, precision=arguments.precision).resolve(setup)
    with using_threads(execution.threads or 1):
        difference = same_losses(problem, recipe, execution, arguments.check_steps)
        if not difference < 1e-2:
            raise SystemExit(f"the two trainers disagree: relative difference {difference:.2e}")
        ours = OurTrainer(problem, recipe, execution)
        weights = ours.ensemble.weights()
        runners: dict[str, Callable[[int], float]] = {
            "hopscope": ours.step,
            "plain": PlainTrainer(problem, recipe, weights).step,
            "careful": PlainTrainer(problem, recipe, weights, careful=True, precision=execution.precision).step,
            "products": Products(problem, recipe, execution).step,
        }
        first = {name: _seconds(step, 0) for name, step in runners.items()}
        taken = race(runners, arguments.seconds)
    step = {name: statistics.median(times) for name, times in taken.items()}
    products = step.pop("products")
    compiling = {name: max(0.0, first[name] - step[name]) if name != "plain" else 0.0 for name in step}
    whole = {name: step[name] + compiling[name] / recipe.steps for name in step}
    result: dict[str, Any] = {
        "recipe": f"{setup.name}: {recipe.layers} layers x {recipe.heads}, width {recipe.d_model}, batch "
        f"{recipe.batch_size}",
        "machine": {
            "processor": processor(),
            "threads": execution.threads,
            "cpu": torch.backends.cpu.get_cpu_capability(),
            "bf16": bf16_unit("cpu"),
        },
        "execution": execution.describe(),
        "agree_within": difference,
        "steps_per_second": {name: 1 / seconds for name, seconds in step.items()},
        "compile_seconds": compiling,
        "times_as_fast_as": {name: step[name] / step["hopscope"] for name in ("plain", "careful")},
        "products_alone": {
            "milliseconds": 1000 * products,
            "share_of_our_step": products / step["hopscope"],
            "times_as_fast_as_plain": step["plain"] / products,
        },
        "over_a_whole_run": {name: whole[name] / whole["hopscope"] for name in ("plain", "careful")},
    }
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"{result['recipe']}; {execution.describe()}; {processor()}")
    print(f"fp32 losses agree over {arguments.check_steps} steps within {difference:.1e} (relative)")
    for name, what in (("plain", "plain, eager, fp32"), ("careful", "careful, compiled"), ("hopscope", "hopscope")):
        faster = "" if name == "hopscope" else f"   hopscope is {step[name] / step['hopscope']:.2f} times as fast"
        print(f"{what:<20} {1 / step[name]:7.2f} steps/s, compiling {compiling[name]:4.0f} s{faster}")
    over = " and ".join(f"{result['over_a_whole_run'][name]:.2f} times ({name})" for name in ("plain", "careful"))
    print(f"over {recipe.steps} steps with compiling, hopscope is {over} as fast")
    print(
        f"the products with the weights alone take {1000 * products:.0f} ms by torch, and our whole step takes "
        f"{1000 * step['hopscope']:.0f} ms; a trainer with these products can be at most "
        f"{step['plain'] / products:.2f} times as fast as the plain one"
    )


def _seconds(step: Callable[[int], float], number: int) -> float:
    began = time.perf_counter()
    step(number)
    return time.perf_counter() - began


def processor() -> str:
    """Return the name of the processor, if the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


if __name__ == "__main__":
    main()
