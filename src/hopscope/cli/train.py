"""`hopscope train`: one ensemble on one problem."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hopscope.cli.options import (
    FOLDER,
    engine_options,
    field_options,
    given,
    json_option,
    numbers,
    recipe_option,
    say_precision,
)
from hopscope.paper import recipes
from hopscope.problem.graph import look_ups
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.recipe import Recipe

if TYPE_CHECKING:
    from hopscope.training.execution import Execution


@click.command()
@click.argument("folder", type=FOLDER)
@recipe_option
@click.option("--seeds", help="Seeds, one model for each: 0, 0-7, 1,3,5. [default: the recipe's, 0 for most]")
@click.option("--threads", type=int, help="CPU threads; 1 if other programs use the cores. [default: one a core]")
@engine_options
@json_option("the result")
@field_options(RetrievalProblem)
@field_options(Recipe, skip=("initial",))
def command(
    folder: Path, name: str, seeds: str | None, threads: int | None, as_json: bool, device: str | None, precision: Any,
    compiled: bool | None, **fields: Any,
) -> None:  # fmt: skip
    """Train transformers on the retrieval problem; continue if FOLDER holds part of the run.

    Any field of the recipe or of the problem can be set; `none` unsets one that may be unset.

    \b
    Examples:
      hopscope train runs/first
      hopscope train runs/a --recipe a                      transformer A of the paper; b, c and d likewise
      hopscope train runs/deep --layers 6 --hops 5 --seeds 0-3
      hopscope train runs/plain --no-curriculum --steps 3000
      hopscope train runs/functions --recipe plain --graph functions --layers 5 --steps 6000
    """
    start = recipes.BY_NAME[name]
    problem = given(RetrievalProblem)
    if "graph" in problem:
        problem.setdefault("hops", look_ups(problem["graph"], start.problem.hops))
    setup = replace(
        start,
        problem=replace(start.problem, **problem),
        recipe=replace(start.recipe, **given(Recipe)),
        seeds=start.seeds if seeds is None else tuple(numbers(seeds, "seeds", least=0, different=True)),
    )

    from hopscope.cli.display import training_display
    from hopscope.records import plain
    from hopscope.training.execution import Execution
    from hopscope.training.run import RunFolder
    from hopscope.training.trainer import train

    execution = Execution(device, threads, precision, compiled).resolve(setup)
    if (folder / "run.json").exists():
        execution = RunFolder(folder).require(setup).execution.resume(setup)
        _say_kept(folder, execution, device=device, threads=threads, precision=precision, compiled=compiled)
    say_precision(execution.device, execution.precision)
    with training_display(setup) as watch:
        run = train(setup, folder, execution=execution, progress=watch)
    _ = run.metrics  # where the run was finished before, damage there would otherwise not be seen
    if as_json:
        click.echo(json.dumps({"folder": str(run.path), **plain(run.result)}))
        return
    for model in run.result.models:
        hops = "  ".join(
            f"{symbol} {loss:.4f}" if loss is not None else f"{symbol} diverged"
            for symbol, loss in zip(setup.problem.target_symbols, model.held_out_partial_losses, strict=True)
        )
        click.echo(f"seed {model.seed}  {hops}")
    click.echo(f"{run.path}")


def _say_kept(folder: Path, execution: Execution, **asked: Any) -> None:
    """Say which of the given options a run does not take, since it goes on as it was begun."""
    kept = [
        f"{name} {getattr(execution, name)}, not {value}"
        for name, value in asked.items()
        if value not in (None, "auto", getattr(execution, name))
    ]
    if kept:
        click.echo(f"{folder} goes on as it was begun: {'; '.join(kept)}; another folder begins anew", err=True)
