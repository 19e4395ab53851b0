"""Race M models trained at once against the other ways to train M models, with the same tensors and updates.

    python race/many_models.py [--models 1,8] [--layers 4] [--batch 512] [--device cuda] [--precision bf16]
                                [--seconds 60] [--json FILE]

The recipe is the depth sweep's (d_model 128, 8 heads, D = 5 with the implicit curriculum). The racers are:

    one by one       GPT-2 as people usually write it, with a Python loop over models
    hugging face     the same with transformers' GPT2Model (if transformers is installed)
    compiled         `one by one`, with torch.compile on each model
    CUDA graphs      `compiled`, with mode="reduce-overhead" (on a GPU)
    torch.func       stack_module_state and vmap, as in torch's tutorial on ensembles
    jax vmap         a jitted step in JAX, vmapped over models (in fp32, if JAX is installed)
    hopscope         M models along a leading axis

All racers start from the same weights and get the same batches. The largest relative difference of their losses over
the first steps is printed; in fp32 it must be negligible. Then the racers make their steps in turns, so that a machine
that slows down slows all racers.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from trainers import PlainGPT2

from hopscope import processes
from hopscope.kernels import Precision
from hopscope.paper import recipes
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch
from hopscope.training.data import Data
from hopscope.training.ensemble import Ensemble
from hopscope.training.execution import Execution, using_threads
from hopscope.training.recipe import Recipe, Setup

Step = Callable[[Batch], list[float]]
Cast = Callable[[], AbstractContextManager[object]]


class FaceGPT2(nn.Module):
    """Hugging Face's GPT2Model that reads vectors, with the weights of a `PlainGPT2`."""

    def __init__(self, plain: PlainGPT2, recipe: Recipe, length: int) -> None:
        from transformers import GPT2Config, GPT2Model

        super().__init__()
        config = GPT2Config(
            vocab_size=1, n_positions=length, n_embd=recipe.d_model, n_layer=recipe.layers, n_head=recipe.heads,
            bos_token_id=None, eos_token_id=None, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
        )  # fmt: skip
        self.embed, self.read, self.reads = plain.embed, plain.read, plain.reads
        self.body = GPT2Model(config)
        with torch.no_grad():
            # Positions are part of the inputs, so the model's table of positions stays zero.
            self.body.wpe.weight.zero_().requires_grad_(False)
            self.body.wte.weight.requires_grad_(False)
            self.body.ln_f.load_state_dict(plain.norm.state_dict())
            for theirs, ours in zip(self.body.h, plain.blocks, strict=True):
                theirs.ln_1.load_state_dict(ours.norm_1.state_dict())
                norm, up, _, down = ours.mlp
                theirs.ln_2.load_state_dict(norm.state_dict())
                pairs = (
                    (theirs.attn.c_attn, ours.qkv), (theirs.attn.c_proj, ours.out),
                    (theirs.mlp.c_fc, up), (theirs.mlp.c_proj, down),
                )  # fmt: skip
                for conv, linear in pairs:
                    conv.weight.copy_(linear.weight.T)
                    conv.bias.copy_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the answers at the queries."""
        return self.read(self.body(inputs_embeds=self.embed(x)).last_hidden_state)[:, -self.reads :]


def optimiser(parameters: list[Tensor], recipe: Recipe) -> torch.optim.AdamW:
    """Return the optimiser, which is the same for all racers."""
    return torch.optim.AdamW(
        parameters, recipe.learning_rate, (recipe.beta1, recipe.beta2), weight_decay=recipe.weight_decay, fused=True
    )


def one_by_one(models: list[nn.Module], recipe: Recipe, cast: Cast) -> Step:
    """Return a step that updates the models in a Python loop."""
    optimisers = [optimiser([p for p in model.parameters() if p.requires_grad], recipe) for model in models]

    def step(batch: Batch) -> list[float]:
        losses = []
        for number, (model, updates) in enumerate(zip(models, optimisers, strict=True)):
            torch.compiler.cudagraph_mark_step_begin()
            with cast():
                answers = model(batch.inputs[number])
            loss = F.mse_loss(answers.float(), batch.targets[number])
            updates.zero_grad()
            loss.backward()
            updates.step()
            losses.append(loss.detach().clone())
        return torch.stack(losses).tolist()

    return step


def functional(models: list[nn.Module], recipe: Recipe, cast: Cast) -> Step:
    """Return a step by torch.func, with one stacked set of weights and vmap over the models."""
    weights, _ = torch.func.stack_module_state(models)
    weights = {name: tensor.detach().requires_grad_() for name, tensor in weights.items()}
    updates = optimiser(list(weights.values()), recipe)
    skeleton = models[0]

    def loss_of(weights: dict[str, Tensor], inputs: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(torch.func.functional_call(skeleton, weights, (inputs,)).float(), targets)

    over_models = torch.func.vmap(loss_of)
    on_gpu = next(iter(weights.values())).is_cuda
    attention = partial(sdpa_kernel, SDPBackend.MATH) if on_gpu else nullcontext  # fused kernels fail under vmap there

    def step(batch: Batch) -> list[float]:
        with attention(), cast():
            losses = over_models(weights, batch.inputs, batch.targets)
        updates.zero_grad()
        losses.sum().backward()
        updates.step()
        return losses.detach().tolist()

    return step


def ensemble(ours: Ensemble, recipe: Recipe, models: int) -> Step:
    """Return hopscope's own step."""
    return lambda batch: ours.update(batch, [recipe.learning_rate] * models).mean(dim=1).tolist()


def field(problem: RetrievalProblem, recipe: Recipe, models: int, device: str, precision: Precision) -> dict[str, Step]:
    """Return all racers, with the same weights. In bf16, all but hopscope use autocast."""
    seeds = list(range(models))
    cast = partial(torch.autocast, torch.device(device).type, torch.bfloat16, precision == "bf16")
    execution = Execution(device=device, precision=precision).resolve(Setup("race", problem, recipe, tuple(seeds)))
    first = Ensemble(problem, recipe, seeds, replace(execution, compiled=False))
    weights = first.weights()

    def plain() -> list[PlainGPT2]:
        found = []
        for number in seeds:
            model = PlainGPT2(problem, recipe).to(device)
            model.take_weights({name: tensor[number : number + 1] for name, tensor in weights.items()})
            found.append(model)
        return found

    racers = {"one by one": one_by_one(list(plain()), recipe, cast)}
    try:
        faces = [FaceGPT2(model, recipe, problem.sequence_length).to(device) for model in plain()]
        racers["hugging face"] = one_by_one(list(faces), recipe, cast)
    except ImportError:
        print("transformers is not installed: hugging face does not race")
    modes = {"compiled": None, **({"CUDA graphs": "reduce-overhead"} if device.startswith("cuda") else {})}
    for name, mode in modes.items():
        compiled = plain()
        for model in compiled:
            model.compile(mode=mode)
        racers[name] = one_by_one(list(compiled), recipe, cast)
    racers["torch.func"] = functional(list(plain()), recipe, cast)
    if precision == "fp32":
        try:
            from jax_rival import jax_trainer

            racers["jax vmap"] = jax_trainer(problem, recipe, weights)
        except ImportError:
            print("jax is not installed: jax vmap does not race")
    racers["hopscope"] = ensemble(Ensemble(problem, recipe, seeds, execution), recipe, models)
    return racers


def race(racers: dict[str, Step], data: Data, seconds: float, check: int, device: str) -> dict[str, dict[str, float]]:
    """Compare the losses of all racers, then time the racers in turns. Racers that fail are named and left out."""
    worst: dict[str, float] = dict.fromkeys(racers, 0.0)
    for number in range(check):
        batch, losses = data.training(number), dict[str, list[float]]()
        for name, step in [*racers.items()]:
            try:
                losses[name] = step(batch)
            except RuntimeError as error:  # such as an operation that vmap does not support on this device
                if name in ("one by one", "hopscope"):  # without these there is no race
                    raise
                print(f"{name} fails on this machine and does not race: {str(error).splitlines()[0]}")
                del racers[name]
        for name, mine in losses.items():
            gaps = [abs(a - b) / b for a, b in zip(mine, losses["one by one"], strict=True)]
            worst[name] = max(worst[name], *gaps)
    taken: dict[str, list[float]] = {name: [] for name in racers}
    number, began = check, time.perf_counter()
    while time.perf_counter() - began < seconds or len(taken["hopscope"]) < 3:
        batch = data.training(number)
        for name, step in racers.items():
            start = time.perf_counter()
            step(batch)
            if device.startswith("cuda"):
                torch.cuda.synchronize()
            taken[name].append(time.perf_counter() - start)
        number += 1
    return {
        name: {"steps_per_second": 1 / statistics.median(taken[name]), "differs_by": worst[name]} for name in racers
    }


def main() -> None:
    """Run the races, print the results, and write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="1,8", help="numbers of models, with one race for each [default: 1,8]")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=512, help="sequences per model [default: 512, the paper's]")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--precision", choices=["fp32", "bf16"], default="fp32", help="precision of all racers [default: fp32]"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds of each race [default: 60]")
    parser.add_argument("--check-steps", type=int, default=5, help="steps whose losses are compared [default: 5]")
    parser.add_argument("--json", type=Path, default=None, help="also write the numbers to this file")
    arguments = parser.parse_args()
    processes.claim_process()
    processes.tune_process()
    problem = RetrievalProblem(hops=5)
    recipe = replace(recipes.SWEEP, layers=arguments.layers, batch_size=arguments.batch)
    results = []
    for models in map(int, arguments.models.split(",")):
        asked = Execution(device=arguments.device, precision=arguments.precision)
        execution = asked.resolve(Setup("race", problem, recipe))
        with using_threads(execution.threads or 1):
            data = Data(problem, recipe, list(range(models)), arguments.device)
            racers = field(problem, recipe, models, arguments.device, arguments.precision)
            found = race(racers, data, arguments.seconds, arguments.check_steps, arguments.device)
        best = max(one["steps_per_second"] for name, one in found.items() if name != "hopscope")
        results.append({"models": models, "racers": found, "times_the_best_rival":
                        found["hopscope"]["steps_per_second"] / best})  # fmt: skip
        print(f"{models} models of {arguments.layers} layers, batch {arguments.batch}, {execution.describe()}")
        for name, one in found.items():
            rate = one["steps_per_second"]
            each = f"{rate:8.3f} steps/s  {models * rate:9.2f} model steps/s"
            print(f"  {name:<14}{each}  losses differ by {one['differs_by']:.0e}")
        print(f"  hopscope is {results[-1]['times_the_best_rival']:.2f} times as fast as the best rival")
    if arguments.json is not None:
        on = torch.cuda.get_device_name() if arguments.device.startswith("cuda") else arguments.device
        setting = {"layers": arguments.layers, "batch": arguments.batch, "device": on, "precision": arguments.precision}
        arguments.json.write_text(json.dumps({**setting, "races": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
