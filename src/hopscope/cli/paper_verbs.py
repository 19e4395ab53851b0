"""`hopscope reproduce`: the main job, from nothing to the report. `hopscope report`: its report alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hopscope.checks import check_outside_runs
from hopscope.cli.display import counting_display, runs_display, say_execution
from hopscope.cli.options import FOLDER, choice, field_options, json_option
from hopscope.errors import InputError
from hopscope.training.execution import Execution

if TYPE_CHECKING:
    from hopscope.paper.claims import Claim

PRESETS = ("laptop", "figure-4", "paper", "paper-short", "tiny")


@click.command()
@click.option("--preset", **choice(*PRESETS, default="laptop"))
@click.option("--out", type=FOLDER, help="Folder  [default: runs/PRESET]")
@field_options(Execution, "execution", skip=("kernels", "threads"))
@json_option("the claims")
def reproduce(preset: str, out: Path | None, execution: dict[str, Any], as_json: bool) -> None:
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
    from hopscope.paper.reproduce import reproduce, write_pages
    from hopscope.training.side_by_side import ProgressDisplay

    how = Execution(**execution)
    say_execution(how)
    found = reproduce(preset, out, how, ProgressDisplay(runs_display, counting_display))
    if preset == "tiny" and not as_json:
        click.echo("tiny models learn next to nothing: no verdict below means anything, only that all of it runs")
    page = write_pages(found)
    if not as_json:
        for claim in found.claims:
            if claim.verdict != "not run":
                click.echo(f"{claim.id:>4}  {claim.verdict:<14}  {claim.reason or claim.observed}")
    _print(found.claims, page, as_json)


@click.command()
@click.argument("folder", type=FOLDER, default=Path("runs/laptop"))
@click.option("--preset", **choice(*PRESETS, default=None, help="[default: the folder's name]"))
@click.option("--claims-only", is_flag=True, help="Judge the claims again into claims.json; no page, no figures.")
@json_option("the claims")
def report(folder: Path, preset: str | None, claims_only: bool, as_json: bool) -> None:
    """Write FOLDER/report.html, claims.json and figures from the runs that are finished there; train nothing.

    \b
    Examples:
      hopscope report
      hopscope report runs/paper
      hopscope report elsewhere --preset laptop --json
      hopscope report results/laptop --claims-only
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give the one that `hopscope reproduce` wrote to")
    check_outside_runs(folder)
    if any(folder.glob("*/run.json")):
        raise InputError(f"{folder} holds the runs of a sweep; give a folder that `hopscope reproduce` wrote to")
    name = preset or folder.resolve().name
    if name not in PRESETS:
        raise InputError(f"{folder} is not named for a preset; pass --preset {' or --preset '.join(PRESETS)}")

    from hopscope.paper.presets import named
    from hopscope.paper.reproduce import read, write_pages

    found = read(named(name), folder)
    _print(found.claims, folder / "claims.json" if claims_only else write_pages(found), as_json)


def _print(claims: list[Claim], page: Path, as_json: bool) -> None:
    click.echo(json.dumps([claim.to_json() for claim in claims]) if as_json else str(page))
