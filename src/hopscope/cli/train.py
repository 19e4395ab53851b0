"""`hopscope train`: one ensemble on one problem."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import click

from hopscope.cli._common import field_options, given, numbers
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training import recipes
from hopscope.training.recipe import Recipe

_HOPS = {"a": 3, "b": 3, "c": 3, "d": 4, "sweep": 5, "laptop": 3}


@click.command()
@click.argument("folder", type=click.Path(file_okay=False))
@click.option(
    "--recipe",
    "name",
    type=click.Choice(list(recipes.BY_NAME)),
    default="laptop",
    show_default=True,
    help="Start from.",
)
@click.option("--seeds", default="0", show_default=True, help="One model a seed: 0, 0-7, 1,3,5.")
@click.option("--device", default=None, help="cpu, cuda, ... [default: a GPU if there is one]")
@click.option("--threads", type=int, default=None, help="CPU threads [default: all]")
@click.option("--precision", type=click.Choice(["auto", "fp32", "bf16"]), default="auto", show_default=True)
@click.option("--compile/--no-compile", "compiled", default=None, help="torch.compile [default: for long runs]")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@field_options(RetrievalProblem)
@field_options(Recipe)
def command(
    folder: str,
    name: str,
    seeds: str,
    device: str | None,
    threads: int | None,
    precision: Any,
    compiled: bool | None,
    as_json: bool,
    **fields: Any,
) -> None:
    """Train transformers on the retrieval problem; continue if FOLDER holds part of the run.

    Any field of the recipe or of the problem can be set; `none` unsets one that may be unset.

    \b
    Examples:
      hopscope train runs/first
      hopscope train runs/a --recipe a                      transformer A of the paper
      hopscope train runs/deep --layers 6 --hops 5 --seeds 0-3
      hopscope train runs/plain --no-curriculum --steps 3000
    """
    recipe = replace(recipes.BY_NAME[name], **given(fields, Recipe))
    problem = RetrievalProblem(**{"hops": _HOPS[name], **given(fields, RetrievalProblem)})
    chosen = numbers(seeds, "seeds", least=0)

    from hopscope.cli._progress import training_bar
    from hopscope.training.engine import choose_engine
    from hopscope.training.trainer import train

    engine = choose_engine(
        recipe.architecture(problem),
        models=len(chosen),
        rows=recipe.batch_size * problem.sequence_length,
        steps=recipe.steps,
        device=device,
        threads=threads,
        precision=precision,
        compiled=compiled,
    )
    with training_bar(f"{len(chosen)} x {recipe.layers} layers, D = {problem.hops}", problem, recipe.steps) as watch:
        run = train(recipe, problem, folder, seeds=chosen, engine=engine, watch=watch)
    if as_json:
        click.echo(json.dumps({"folder": str(run.path), **run.result}))
        return
    for model in run.result["models"]:
        hops = "  ".join(
            f"x{hop} {loss:.4f}" if loss is not None else f"x{hop} diverged"
            for hop, loss in zip(problem.target_hops, model["held_out_partial_losses"], strict=True)
        )
        click.echo(f"seed {model['seed']}  {hops}")
    click.echo(f"{run.path}")
