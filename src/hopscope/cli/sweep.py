"""`hopscope sweep`: depth x seeds x formulation, for any recipe."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import click

from hopscope.checks import check_outside_runs
from hopscope.cli.options import (
    FOLDER,
    choice,
    engine_options,
    field_options,
    given,
    json_option,
    numbers,
    recipe_option,
    refuse_given,
    say_precision,
)
from hopscope.paper import recipes
from hopscope.training.on_ray import RayCluster
from hopscope.training.recipe import Recipe


@click.command()
@click.argument("folder", type=FOLDER)
@recipe_option
@click.option("--depths", default="1-4", show_default=True, help="Numbers of layers: 3, 1-8, 1,2,4.")
@click.option("--hops", default=3, show_default=True, help="D with the implicit curriculum.")
@click.option("--plain-hops", default=3, show_default=True, help="D without the curriculum.")
@click.option("--seeds", default="0-1", show_default=True, help="Seeds with the curriculum, one model for each.")
@click.option("--plain-seeds", help="Seeds without it; `none` to leave these runs out. [default: as --seeds]")
@click.option("--workers", type=int, help="On this machine: processes that train [default: one per core]")
@click.option("--engine", **choice("here", "ray", default="here", help="Train here, or on a Ray cluster."))
@field_options(RayCluster, show_defaults=True)
@engine_options
@json_option("the results of every run")
@field_options(Recipe, skip=("layers", "initial"))
def command(
    folder: Path, name: str, depths: str, hops: int, plain_hops: int, seeds: str, plain_seeds: str | None,
    workers: int | None, engine: str, device: str | None, precision: Any, compiled: bool | None, as_json: bool,
    **_: Any,
) -> None:  # fmt: skip
    """Train an ensemble for each depth, with and without the implicit curriculum, and draw Figure 4.

    FOLDER gets a run folder for each, `summary.json` and `figures/`. Stopped and called again, it continues.

    \b
    Examples:
      hopscope sweep runs/depth --depths 1-4 --seeds 0-3
      hopscope sweep runs/deep --hops 5 --depths 1-6 --steps 8000 --plain-seeds none
      hopscope sweep runs/figure-4 --recipe sweep --hops 5 --depths 1-8 --seeds 0-7
      hopscope sweep /shared/figure-4 --recipe sweep --engine ray --gpus-each 0.25
    """
    from hopscope.cli.display import runs_display
    from hopscope.paper.section_7 import DepthStudy, read
    from hopscope.paper.section_7_claims import judge
    from hopscope.paper.section_7_figures import section
    from hopscope.plot.style import save
    from hopscope.records import plain
    from hopscope.training.execution import Execution
    from hopscope.training.side_by_side import train_all

    check_outside_runs(folder)
    if engine == "ray":
        refuse_given("on a Ray cluster the workers are Ray's, see --cpus-each and --gpus-each", "workers", "device")
    else:
        refuse_given("options of a Ray cluster want --engine ray", *(field.name for field in fields(RayCluster)))
    with_curriculum = tuple(numbers(seeds, "seeds", least=0, different=True))
    without = with_curriculum
    if plain_seeds is not None:
        without = () if plain_seeds == "none" else tuple(numbers(plain_seeds, "plain seeds", least=0, different=True))
    study = DepthStudy(
        scale="sweep",
        recipe=replace(recipes.BY_NAME[name].recipe, **given(Recipe)),
        layers=tuple(sorted(numbers(depths, "depths"))),
        hops=hops,
        plain_hops=plain_hops,
        seeds=with_curriculum,
        plain_seeds=without,
    )
    setups = study.setups()
    if engine == "here":
        say_precision(device, precision)
    execution = Execution(device, None, precision, compiled, workers=workers)
    with runs_display(setups) as watch:
        cluster = RayCluster(**given(RayCluster)) if engine == "ray" else None
        train_all(setups, folder, execution=execution, cluster=cluster, progress=watch)
    found = read(study, folder, at=".")
    page = section(found)
    for figure in page.figures if page else ():
        save(figure.figure, folder / "figures" / figure.name)
    if as_json:
        click.echo(json.dumps(plain(found.models)))
        return
    for finding in judge(found):
        click.echo(f"{finding.id}  {finding.verdict:<14}  {finding.reason or finding.observed}")
    click.echo(str(folder / "figures"))
