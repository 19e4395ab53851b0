"""`hopscope train`: one ensemble on one problem; `sweep`: depth x seeds x formulation; `reproduce`: the main job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

import hopscope as hs
from hopscope.checks import check_outside_runs
from hopscope.cli.folder_verbs import PRESETS
from hopscope.cli.options import FOLDER, NumberList, field_options, json_option
from hopscope.records import plain

_NAMES = click.Choice([*hs.recipes.BY_NAME])
_recipe_option = click.option("--recipe", "name", type=_NAMES, default="laptop", help="The recipe to start from.")


@click.command()
@click.argument("folder", type=FOLDER)
@_recipe_option
@click.option("--seeds", type=NumberList(0), help="Seeds, one model for each: 0, 0-7, 1,3,5.  [default: the recipe's]")
@field_options(hs.Execution, "execution", skip=("kernels", "workers"))
@json_option("the result")
@field_options(hs.RetrievalProblem, "problem")
@field_options(hs.Recipe, "recipe", skip=("initial",))
def train(folder: Path, name: str, seeds: tuple[int, ...] | None, **fields: dict[str, Any]) -> tuple[Any, str]:
    """Train transformers on the retrieval problem; continue if FOLDER holds part of the run.

    Any field of the recipe or of the problem can be set; `none` unsets one that may be unset.

    \b
    Examples:
      hopscope train runs/first
      hopscope train runs/a --recipe a                      transformer A of the paper; b, c and d likewise
      hopscope train runs/deep --layers 6 --hops 5 --seeds 0-3
      hopscope train runs/plain --no-curriculum --steps 3000
    """
    from hopscope.training.metrics import learned_below
    from hopscope.training.side_by_side import losses_by_hop

    start = hs.recipes.BY_NAME[name]
    changed = replace(start.problem, **fields["problem"]), replace(start.recipe, **fields["recipe"])
    setup = hs.Setup(start.name, *changed, seeds or start.seeds)
    how, asked = hs.Execution(**fields["execution"]).resolve(setup), fields["execution"]
    if (folder / "run.json").exists():
        how = hs.Run(folder).require(setup).execution.resume(setup)
        stays = [f"{field} {getattr(how, field)}" for field, value in asked.items() if value != getattr(how, field)]
        if stays:
            click.echo(f"{folder} continues with {', '.join(stays)}; another folder starts afresh", err=True)
    run = hs.train(setup, folder, execution=_announced(how))
    _ = run.metrics  # of a run that was finished before, damage there would otherwise not be seen
    limit = learned_below(setup.problem.chains)
    lines = [f"loss on held-out sequences, hop by hop (a hop is learned below {limit:g})"]
    for model in run.result.models:
        lines.append(f"seed {model.seed}  {losses_by_hop(setup.problem, [model.held_out_partial_losses])}")
    lines.append(f"wrote {run.path}; next: hopscope circuit {run.path}")
    return {"folder": str(run.path), **plain(run.result)}, "\n".join(lines)


@click.command()
@click.argument("folder", type=FOLDER)
@_recipe_option
@click.option("--depths", type=NumberList(), default="1-4", help="Numbers of layers: 3, 1-8, 1,2,4.")
@click.option("--hops", default=3, help="D with the implicit curriculum.")
@click.option("--seeds", type=NumberList(0), default="0-1", help="Seeds, one model for each.")
@click.option("--plain-hops", default=3, help="D without the curriculum.")
@click.option("--plain-seeds", type=NumberList(0, empty=True), help="Seeds without it, or none.  [default: as --seeds]")
@field_options(hs.Execution, "execution", skip=("kernels", "threads"))
@json_option("the results of every run")
@field_options(hs.Recipe, "recipe", skip=("layers", "initial"))
def sweep(
    folder: Path, name: str, depths: tuple[int, ...], execution: dict[str, Any], recipe: dict[str, Any], **settings: Any
) -> tuple[Any, str]:
    """Train models of each depth, with and without the implicit curriculum, and draw Figure 4.

    FOLDER gets a run folder for each model, `summary.json` and `figures/`. The same command continues if stopped.

    \b
    Examples:
      hopscope sweep runs/depth --depths 1-4 --seeds 0-3
      hopscope sweep runs/deep --hops 5 --depths 1-6 --steps 8000 --plain-seeds none
      hopscope sweep runs/figure-4 --recipe sweep --hops 5 --depths 1-8 --seeds 0-7
    """
    from hopscope.paper.section_7 import DepthStudy, read
    from hopscope.paper.section_7_claims import judge
    from hopscope.paper.section_7_figures import section

    check_outside_runs(folder)
    changed = replace(hs.recipes.BY_NAME[name].recipe, **recipe)
    study = DepthStudy("sweep", changed, layers=tuple(sorted(depths)), **settings)
    read(study, folder, at=".")  # refuses the folder of another study before hours of training
    hs.train_all(study.setups(), folder, execution=_announced(hs.Execution(**execution)))
    found = read(study, folder, at=".")
    page = section(found)
    for figure in page.figures if page else ():
        hs.plot.save(figure.figure, folder / "figures" / figure.name)
    lines = [f"{finding.id}  {finding.reason or finding.general_column}" for finding in judge(found)]
    return plain(found.models), "\n".join([*lines, str(folder / "figures")])


@click.command()
@click.option("--preset", type=click.Choice(PRESETS), default="laptop")
@click.option("--out", type=FOLDER, help="Folder  [default: runs/PRESET]")
@field_options(hs.Execution, "execution", skip=("kernels", "threads"))
@json_option("the claims")
def reproduce(preset: str, out: Path | None, execution: dict[str, Any]) -> tuple[Any, str]:
    """Train, analyse and report: every figure and claim that the preset covers.

    At the end, it prints the table of claims and the paths of explorer and report. If it is stopped, the same command
    continues; once everything is finished, the same command only rebuilds the report.

    \b
    Examples:
      hopscope reproduce                     minutes on two cores
      hopscope reproduce --preset figure-4   five hops with the curriculum, three without, 1 to 8 layers: hours
      hopscope reproduce --preset paper      the exact recipes: for a GPU
      hopscope reproduce --preset paper-short    ten transformers of A's shape, over a sixth of its steps: hours
      hopscope reproduce --preset tiny       a minute: does everything work here?
      hopscope reproduce --out elsewhere --workers 1
    """
    from hopscope.paper.claims import claim_lines
    from hopscope.paper.reproduce import write_pages

    found = hs.reproduce(preset, out, _announced(hs.Execution(**execution)))
    lines = claim_lines(found.claims)
    if preset == "tiny":
        lines.insert(0, "tiny models learn next to nothing: no verdict means anything, only that all of it runs")
    lines += ["", *map(str, write_pages(found))]
    return [claim.to_json() for claim in found.claims], "\n".join(lines)


def _announced(execution: hs.Execution) -> hs.Execution:
    """Announce on standard error how matrix products are computed, tune the process, and return the execution."""
    from hopscope.kernels import best_precision, bf16_unit
    from hopscope.processes import tune_process
    from hopscope.training.execution import default_device

    tune_process()
    device = execution.device or default_device()
    replace(execution, device=device).check()
    precision = best_precision(device) if execution.precision == "auto" else execution.precision
    unit = f" ({bf16_unit(device) or 'slow here: no unit for it'})" if precision == "bf16" else ""
    click.echo(f"matrix products on {device} in {precision}{unit}", err=True)
    return execution
