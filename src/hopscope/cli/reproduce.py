"""`hopscope reproduce`: the main job, from nothing to the report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from hopscope.cli._engine import engine_options, say_precision
from hopscope.paper import presets


@click.command()
@click.option("--preset", type=click.Choice(list(presets.BY_NAME)), default="laptop", show_default=True)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=None, help="Folder [default: runs/PRESET]"
)
@click.option("--workers", type=int, default=None, help="Processes that train [default: one a core]")
@engine_options
@click.option("--held-head", is_flag=True, help="Train also with the first head handed over: is the plateau gone?")
@click.option("--json", "as_json", is_flag=True, help="Print the claims as JSON.")
def command(
    preset: str,
    out: Path | None,
    workers: int | None,
    device: str | None,
    precision: Any,
    compiled: bool | None,
    held_head: bool,
    as_json: bool,
) -> None:
    """Train, analyse and report: every figure and claim that the preset covers.

    Ends with the path of the report. Stopped and called again it continues; finished, it only writes the report anew.

    \b
    Examples:
      hopscope reproduce                     minutes on two cores
      hopscope reproduce --held-head         some minutes more
      hopscope reproduce --preset paper      the exact recipes: for a GPU
      hopscope reproduce --out elsewhere --workers 1
    """
    chosen = presets.BY_NAME[preset]
    folder = out or Path("runs") / preset

    from hopscope.cli._studies import study_bars, waiting
    from hopscope.paper.followed import follow
    from hopscope.report.reproduction import write_report
    from hopscope.studies.held_head import held_setups
    from hopscope.training.engine import available_cores
    from hopscope.training.many import train_all
    from hopscope.training.setup import Setup

    engine: dict[str, Any] = {"device": device, "precision": precision, "compiled": compiled}
    say_precision(device, precision)

    def trained(setups: Sequence[Setup], where: str) -> None:
        with study_bars(setups) as watch:
            train_all(setups, folder / where, workers=workers, watch=watch, **engine)

    if chosen.transformers:
        trained(chosen.transformers, "transformers")
    trained(chosen.depth.setups(), "sweep")
    with waiting("circuits and their emergence") as tick:
        runs = chosen.finished(folder, (*chosen.compared, *chosen.watched))
        follow(runs, chosen.effort, workers or available_cores(), tick)
    if held_head:
        for run in chosen.finished(folder, chosen.watched):
            trained(held_setups(run), "held-head")
    claims = write_report(folder, chosen)
    if as_json:
        click.echo(json.dumps([asdict(claim) for claim in claims]))
        return
    for claim in claims:
        if claim.verdict != "not run":
            click.echo(f"{claim.id:>4}  {claim.verdict:<14}  {claim.ours}")
    click.echo(str(folder / "report.html"))
