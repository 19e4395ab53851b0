"""`hopscope explore`: a page in which a trained model can be looked at, scrubbed through and cut."""

from __future__ import annotations

import json
from pathlib import Path

import click

from hopscope.checks import check_folder, check_outside_runs
from hopscope.cli.options import FILE, FOLDER, json_option
from hopscope.errors import InputError


@click.command()
@click.argument("folders", metavar="RUN...", nargs=-1, required=True, type=FOLDER)
@click.option("--out", type=FILE, help="File, ending in .html [default: explorer.html in the first RUN]")
@click.option("--model", type=int, help="Which model of each run, from 0 [default: all with a circuit]")
@click.option("--compact", type=FOLDER, help="Also copy RUN into this new folder, with what the page is made of alone.")
@click.option("--large", is_flag=True, help="Write the page even beyond 25 MB.")
@json_option("the path, its size in bytes and what they are made of,")
def command(
    folders: tuple[Path, ...], out: Path | None, model: int | None, compact: Path | None, large: bool, as_json: bool
) -> None:
    """One HTML file that shows trained runs, their circuits and how they came to be.

    The network itself is inside, so any set of paths can be cut in the page and the loss by hop is computed. The file
    loads nothing from anywhere: open it, mail it. What is missing in RUN (a circuit, its emergence) is said there.

    \b
    Examples:
      hopscope explore runs/first
      hopscope explore runs/a runs/b --out a-and-b.html
      hopscope explore runs/first --model 1
      hopscope explore runs/first --compact first-small    and later: hopscope explore first-small
    """
    from hopscope.explorer.page import PAGE, check_page, explore
    from hopscope.training.run import RunFolder

    if out is not None:
        check_folder(out.parent)
        check_page(out, folders[0] / PAGE)
    runs = [RunFolder(folder) for folder in folders]
    if compact is not None:
        from hopscope.explorer.compact_export import compact_export

        if len(runs) != 1:
            raise InputError(f"--compact copies one run, got {len(runs)}; give one RUN")
        check_outside_runs(compact)
        compact_export(runs[0], compact)
    path, page = explore(runs, out, model=model, large=large)
    for sentence in page.damaged:
        click.echo(f"left out: {sentence}", err=True)
    if as_json:
        click.echo(json.dumps({"path": str(path), "bytes": len(page.html.encode()), "parts": page.sizes}))
    else:
        click.echo(str(path))
