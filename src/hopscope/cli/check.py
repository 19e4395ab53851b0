"""`hopscope check`: are a folder's files what was written?"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from hopscope.cli.options import PATH, json_option
from hopscope.exit import readable
from hopscope.words import counted


@click.command()
@click.argument("folder", type=PATH)
@json_option("every file and what was found,")
def command(folder: Path, as_json: bool) -> int:
    """Check that every file of FOLDER, a run or what holds runs or a benchmark, is what was written there.

    Ends with status 1 where one is damaged, missing or of another run. Nothing is changed. Figures and tables that
    follow from the rest are not looked at.

    \b
    Examples:
      hopscope check runs/first
      hopscope check runs/laptop --json
    """
    from hopscope.integrity import check

    found = check(folder)
    damaged = [one for one in found if one.trouble]
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found]))
    else:
        for one in damaged:
            click.echo(readable(one.trouble))
        click.echo(f"{counted(len(found), 'file')}; {len(damaged) or 'none'} damaged")
    return 1 if damaged else 0
