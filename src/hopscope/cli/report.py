"""`hopscope report`: write a reproduction's report anew from what is in its folder."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from hopscope.errors import InputError
from hopscope.paper import presets


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=Path("runs/laptop"))
@click.option("--preset", type=click.Choice(list(presets.BY_NAME)), default=None, help="[default: the folder's name]")
@click.option("--json", "as_json", is_flag=True, help="Print the claims as JSON.")
def command(folder: Path, preset: str | None, as_json: bool) -> None:
    """Write FOLDER/report.html, claims.json and figures from the runs that are finished there; train nothing.

    \b
    Examples:
      hopscope report
      hopscope report runs/paper
      hopscope report elsewhere --preset laptop --json
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give the one that `hopscope reproduce` wrote to")
    name = preset or folder.resolve().name
    if name not in presets.BY_NAME:
        raise InputError(f"{folder} does not say its preset; pass --preset {' or --preset '.join(presets.BY_NAME)}")

    from hopscope.report.reproduction import write_report

    claims = write_report(folder, presets.BY_NAME[name])
    if as_json:
        click.echo(json.dumps([asdict(claim) for claim in claims]))
    else:
        click.echo(str(folder / "report.html"))
