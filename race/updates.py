"""Measure how long an update takes on this machine, by recipe, number of models, and way of launching it.

    python race/updates.py --recipe sweep --models 1,2,4 [--layers 8] [--device cuda] [--json]

On a GPU, updates are timed in three ways: by torch alone, which launches operations one by one; as one CUDA graph; and
as a graph of compiled blocks. On a CPU, they are timed in two ways: as hopscope chooses on this machine, and by torch
alone. Data are made before the clock starts. Compiling and recording are timed separately.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace

import torch

from hopscope import processes
from hopscope.paper import recipes
from hopscope.training.data import Data
from hopscope.training.ensemble import Ensemble
from hopscope.training.execution import Execution, default_device, using_threads
from hopscope.training.recipe import Setup

BEFORE = 5
"""The number of warm-up updates, in which everything is compiled and recorded."""


def ways(setup: Setup, device: str) -> Iterator[tuple[str, Execution]]:
    """Yield the ways to launch updates on a device, by name."""
    chosen = Execution(device, compiled=False).resolve(setup)
    if torch.device(device).type == "cuda":
        yield "by torch alone", replace(chosen, kernels=False)
        yield "graph", chosen
        yield "graph, compiled", replace(chosen, compiled=True)
    else:
        yield "chosen here", Execution(device).resolve(setup)
        yield "by torch alone", replace(chosen, kernels=False)


def measure(setup: Setup, execution: Execution, updates: int) -> dict[str, float]:
    """Return the mean milliseconds per update, and the seconds of compiling and warm-up before the timed updates."""
    problem, recipe, seeds = setup.problem, setup.recipe, setup.seeds
    data = Data(problem, recipe, seeds, execution.device)
    batches = [data.training(step) for step in range(updates)]
    rates = [recipe.learning_rate] * len(seeds)
    with using_threads(execution.threads or 1):
        began = time.perf_counter()
        ensemble = Ensemble(problem, recipe, seeds, execution)
        for batch in batches[:BEFORE]:
            ensemble.update(batch, rates, None)
        _wait(execution)
        start = time.perf_counter()
        for batch in batches:
            ensemble.update(batch, rates, None)
        _wait(execution)
        each = (time.perf_counter() - start) / updates
    return {"milliseconds an update": round(1e3 * each, 2), "seconds until then": round(start - began, 1)}


def _wait(execution: Execution) -> None:
    """Wait until the device has finished all launched work."""
    if torch.device(execution.device).type == "cuda":
        torch.cuda.synchronize(execution.device)


def main() -> None:
    """Measure every way, and print the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", choices=recipes.BY_NAME, default="plain")
    parser.add_argument("--layers", type=int, help="number of layers, instead of the recipe's")
    parser.add_argument("--models", default="1,4", help="numbers of models that share an update [default: 1,4]")
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--device", default=default_device())
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    processes.claim_process()
    processes.tune_process()
    named = recipes.BY_NAME[given.recipe]
    recipe = replace(named.recipe, layers=given.layers or named.recipe.layers)
    found = []
    for models in map(int, given.models.split(",")):
        setup = Setup(given.recipe, named.problem, recipe, tuple(range(models)))
        for how, execution in ways(setup, given.device):
            times = measure(setup, execution, given.updates)
            row = {"recipe": given.recipe, "layers": recipe.layers, "models": models, "how": how, **times}
            found.append({**row, "execution": execution.describe()})
            if not given.json:
                print(", ".join(f"{name} {value}" for name, value in found[-1].items()), flush=True)
    if given.json:
        device = torch.cuda.get_device_name(given.device) if given.device.startswith("cuda") else given.device
        print(json.dumps({"torch": torch.__version__, "device": device, "found": found}, indent=1))


if __name__ == "__main__":
    main()
