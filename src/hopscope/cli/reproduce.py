"""`hopscope reproduce`: the main job, from nothing to the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from hopscope.cli.options import FOLDER, choice, engine_options, json_option, say_precision

PRESETS = ("laptop", "figure-4", "paper", "paper-short", "tiny")


@click.command()
@click.option("--preset", **choice(*PRESETS, default="laptop"))
@click.option("--out", type=FOLDER, help="Folder [default: runs/PRESET]")
@click.option("--workers", type=int, help="Processes that train [default: one per core]")
@engine_options
@json_option("the claims")
def command(
    preset: str, out: Path | None, workers: int | None, device: str | None, precision: Any, compiled: bool | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Train, analyse and report: every figure and claim that the preset covers.

    Ends with the path of the report. Stopped and called again it continues; finished, it only writes the report anew.

    \b
    Examples:
      hopscope reproduce                     minutes on two cores
      hopscope reproduce --preset figure-4   five hops with the curriculum, three without, 1 to 8 layers: hours
      hopscope reproduce --preset paper      the exact recipes: for a GPU
      hopscope reproduce --preset paper-short    ten transformers of A's shape, over a sixth of its steps: hours
      hopscope reproduce --preset tiny       a minute: does everything work here?
      hopscope reproduce --out elsewhere --workers 1
    """
    from hopscope.cli.display import jobs_display, runs_display
    from hopscope.paper.reproduce import reproduce, write_pages
    from hopscope.training.execution import Execution
    from hopscope.training.side_by_side import ProgressDisplay

    say_precision(device, precision)
    execution = Execution(device, None, precision, compiled, workers=workers)
    found = reproduce(preset, out, execution, ProgressDisplay(runs_display, jobs_display))
    if preset == "tiny" and not as_json:
        click.echo("tiny models learn next to nothing: no verdict below means anything, only that all of it runs")
    page = write_pages(found)
    if as_json:
        click.echo(json.dumps([claim.to_json() for claim in found.claims]))
        return
    for claim in found.claims:
        if claim.verdict != "not run":
            click.echo(f"{claim.id:>4}  {claim.verdict:<14}  {claim.reason or claim.observed}")
    click.echo(str(page))
