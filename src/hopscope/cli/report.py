"""`hopscope report`: write a reproduction's report anew from what is in its folder."""

from __future__ import annotations

import json
from pathlib import Path

import click

from hopscope.checks import check_outside_runs
from hopscope.cli.options import FOLDER, choice, json_option
from hopscope.cli.reproduce import PRESETS
from hopscope.errors import InputError


@click.command()
@click.argument("folder", type=FOLDER, default=Path("runs/laptop"))
@click.option("--preset", **choice(*PRESETS, default=None, help="[default: as the folder's name or claims.json says]"))
@click.option("--claims-only", is_flag=True, help="Judge the claims anew into claims.json; no page, no figures.")
@json_option("the claims")
def command(folder: Path, preset: str | None, claims_only: bool, as_json: bool) -> None:
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
        raise InputError(
            f"{folder} holds runs side by side, as of a sweep, whose figures `hopscope sweep` draws; give a folder "
            "that `hopscope reproduce` wrote to"
        )
    name = preset or _preset(folder)

    from hopscope.paper.presets import named
    from hopscope.paper.reproduce import read, write_pages

    found = read(named(name), folder)
    page = folder / "claims.json" if claims_only else write_pages(found)
    click.echo(json.dumps([claim.to_json() for claim in found.claims]) if as_json else str(page))


def _preset(folder: Path) -> str:
    """The preset that a folder is named for, or else that its claims are of."""
    from hopscope.paper.claims import read_claims

    told = {folder.resolve().name} & {*PRESETS}
    if not told and (folder / "claims.json").exists():
        told = {claim.scale.partition(":")[0] for claim in read_claims(folder / "claims.json")} & {*PRESETS}
    if len(told) != 1:
        raise InputError(f"{folder} does not say its preset; pass --preset {' or --preset '.join(PRESETS)}")
    return told.pop()
