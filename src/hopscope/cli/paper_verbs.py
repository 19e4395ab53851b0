"""`hopscope reproduce`: the main job, from nothing to the report. `hopscope report`: its report alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import hopscope as hs
from hopscope.checks import check_outside_runs
from hopscope.cli.display import counting_display, runs_display, say_execution
from hopscope.cli.options import FOLDER, choice, field_options, json_option
from hopscope.training.execution import Execution

PRESETS = ("laptop", "figure-4", "paper", "paper-short", "tiny")


@click.command()
@click.option("--preset", **choice(*PRESETS, default="laptop"))
@click.option("--out", type=FOLDER, help="Folder  [default: runs/PRESET]")
@field_options(Execution, "execution", skip=("kernels", "threads"))
@json_option("the claims")
def reproduce(preset: str, out: Path | None, execution: dict[str, Any]) -> tuple[Any, str]:
    """Train, analyse and report: every figure and claim that the preset covers.

    Ends with the path of the report. Stopped and called again it continues; finished, it only rebuilds the report.

    \b
    Examples:
      hopscope reproduce                     minutes on two cores
      hopscope reproduce --preset figure-4   five hops with the curriculum, three without, 1 to 8 layers: hours
      hopscope reproduce --preset paper      the exact recipes: for a GPU
      hopscope reproduce --preset paper-short    ten transformers of A's shape, over a sixth of its steps: hours
      hopscope reproduce --preset tiny       a minute: does everything work here?
      hopscope reproduce --out elsewhere --workers 1
    """
    from hopscope.paper.reproduce import write_pages
    from hopscope.training.side_by_side import ProgressDisplay

    how = hs.Execution(**execution)
    say_execution(how)
    found = hs.reproduce(preset, out, how, ProgressDisplay(runs_display, counting_display))
    judged = [claim for claim in found.claims if claim.verdict != "not run"]
    lines = [f"{claim.id:>4}  {claim.verdict:<14}  {claim.reason or claim.observed}" for claim in judged]
    if preset == "tiny":
        lines.insert(0, "tiny models learn next to nothing: no verdict means anything, only that all of it runs")
    return [claim.to_json() for claim in found.claims], "\n".join([*lines, str(write_pages(found))])


@click.command()
@click.argument("folder", type=FOLDER, default=Path("runs/laptop"))
@click.option("--preset", **choice(*PRESETS, default=None, help="[default: the folder's name]"))
@click.option("--claims-only", is_flag=True, help="Judge the claims again into claims.json; no page, no figures.")
@json_option("the claims")
def report(folder: Path, preset: str | None, claims_only: bool) -> tuple[Any, str]:
    """Write FOLDER/report.html, claims.json and figures from the runs that are finished there; train nothing.

    \b
    Examples:
      hopscope report
      hopscope report runs/paper
      hopscope report elsewhere --preset laptop --json
      hopscope report results/laptop --claims-only
    """
    if not folder.is_dir():
        raise hs.InputError(f"{folder} is not a folder; give the one that `hopscope reproduce` wrote to")
    check_outside_runs(folder)
    if any(folder.glob("*/run.json")):
        raise hs.InputError(f"{folder} holds the runs of a sweep; give a folder that `hopscope reproduce` wrote to")
    name = preset or folder.resolve().name
    if name not in PRESETS:
        raise hs.InputError(f"{folder} is not named for a preset; pass --preset {' or --preset '.join(PRESETS)}")

    from hopscope.paper.presets import named
    from hopscope.paper.reproduce import read, write_pages

    found = read(named(name), folder)
    page = folder / "claims.json" if claims_only else write_pages(found)
    return [claim.to_json() for claim in found.claims], str(page)
