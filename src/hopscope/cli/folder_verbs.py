"""Verbs for what is on disk: `hopscope explore`, `export`, `report` and `check`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

import hopscope as hs
from hopscope.checks import check_folder, check_outside_runs
from hopscope.cli.exit import readable
from hopscope.cli.options import FOLDER, PATH, json_option, refuse_given
from hopscope.words import counted

PRESETS = ("laptop", "figure-4", "paper", "paper-short", "tiny")


@click.command()
@click.argument("folder", type=PATH)
@json_option("every file and what was found,")
def check(folder: Path) -> tuple[Any, str, int]:
    """Verify the checksums of FOLDER: a run, a benchmark, or a folder that contains runs or benchmarks.

    The exit status is 1 if a file is damaged, missing or of another run. A finished run may lack its state and its
    checkpoints. Nothing is changed. Figures and tables, which follow from the rest, are not verified.

    \b
    Examples:
      hopscope check runs/first
      hopscope check runs/laptop --json
    """
    from hopscope.integrity import check

    found = check(folder)
    troubles = [readable(file.trouble) for file in found if file.trouble]
    lines = [*troubles, f"{counted(len(found), 'file')}; {len(troubles) or 'none'} damaged"]
    return [asdict(file) for file in found], "\n".join(lines), 1 if troubles else 0


@click.command()
@click.argument("folders", metavar="RUN...", nargs=-1, required=True, type=PATH)
@click.option("--out", type=PATH, help="File, ending in .html  [default: explorer.html in the first RUN]")
@click.option("--model", type=int, help="Which model of each run, from 0  [default: all with a circuit]")
@click.option("--large", is_flag=True, help="Write the page even beyond 25 MB.")
@json_option("the path, its size in bytes and that of its parts,")
def explore(folders: tuple[Path, ...], out: Path | None, model: int | None, large: bool) -> tuple[Any, str]:
    """Interactive HTML page: inspect trained runs, their circuits and the circuits' emergence, and ablate paths.

    The page contains the network itself and computes the loss by hop. It loads nothing from elsewhere, so you can open
    it offline or mail it. If RUN has no circuit or no emergence, the page says so.

    Instead of runs, you can give one stored circuit, e.g. of a language model: its record, or the folder of one.
    Its page is written beside the record. The page shows the losses measured without each path, and contains no model.

    \b
    Examples:
      hopscope explore runs/first
      hopscope explore runs/a runs/b --out a-and-b.html
      hopscope explore runs/first --model 1
      hopscope explore results/pretrained/smollm2-induction    a language model's circuit
    """
    if record := next(filter(None, (path if path.is_file() else record_without_run(path) for path in folders)), None):
        from hopscope.explorer.stored import explore_circuit

        refuse_given("a stored circuit is one page", "model", "large")
        if len(folders) > 1:
            raise hs.InputError(f"{record} is one circuit, which has a page of its own; leave the others out")
        path, page = explore_circuit(record, out)
    else:
        from hopscope.explorer.page import explore
        from hopscope.training.run import RunFolder

        path, page = explore([RunFolder(check_folder(folder)) for folder in folders], out, model=model, large=large)
    return {"path": str(path), "bytes": page.size, "parts": page.sizes}, str(path)


def record_without_run(folder: Path) -> Path | None:
    """Return the record of a circuit in a folder without a run: `circuit.json`, or else the only JSON file."""
    named, found = folder / "circuit.json", sorted(folder.glob("[!.]*.json"))
    if (folder / "run.json").exists():
        return None
    return named if named.is_file() else found[0] if len(found) == 1 else None


@click.command()
@click.argument("source", metavar="CIRCUIT", type=PATH)
@click.option("--to", "library", type=click.Choice(["mib"]), default="mib")
@click.option("--out", type=PATH, required=True, help="A new file.")
@click.option("--of", type=PATH, help="The language model of the circuit  [default: beside which it lies].")
@json_option("the path of what was written")
def export(source: Path, library: str, out: Path, of: Path | None) -> tuple[Any, str]:
    """Write a language model's circuit for another library.

    CIRCUIT is the record of a circuit. The command writes a graph that EAP-IG and the circuit track of MIB can read.
    Its nodes are heads and MLPs. Each head's score is its rank in the order of removal, the least important head first.

    \b
    Examples:
      hopscope export c/ioi.json --to mib --of my-model --out graph.json
    """
    check_outside_runs(out)
    from hopscope.language.mib import is_parallel, write_graph

    circuit = hs.Circuit.load(source)
    if circuit.text is None:
        raise hs.InputError(f"{source} is a circuit of a run; only those of language models can be exported")
    if of is None and source.parent.name != "circuits":
        raise hs.InputError(f"{source} is not in a model's folder; pass --of, the language model it was found in")
    if out.exists():
        raise hs.InputError(f"{out} is there already; choose another name")
    model = hs.LanguageModel(of := of or source.parent.parent)
    if circuit.model != model.named.content:
        raise hs.InputError(f"{source} is not a circuit of {of}; pass --of, the language model that it was found in")
    write_graph(out, circuit, model.model.shape.d_model, is_parallel(model.model))
    return {"path": str(out)}, str(out)


@click.command()
@click.argument("folder", type=FOLDER, default=Path("runs/laptop"))
@click.option("--preset", type=click.Choice(PRESETS), help="[default: the folder's name]")
@click.option("--claims-only", is_flag=True, help="Judge the claims again into claims.json; no page, no figures.")
@json_option("the claims")
def report(folder: Path, preset: str | None, claims_only: bool) -> tuple[Any, str]:
    """Write FOLDER/report.html, claims.json and figures from the runs that are finished there; train nothing.

    \b
    Examples:
      hopscope report
      hopscope report runs/paper
      hopscope report elsewhere --preset laptop --json
      hopscope report results/figure-4 --claims-only
    """
    check_outside_runs(folder)
    if not folder.is_dir() or any(folder.glob("*/run.json")):
        raise hs.InputError(f"{folder} is not a folder of a reproduction; give one that `hopscope reproduce` wrote to")
    name = preset or folder.resolve().name
    if name not in PRESETS:
        raise hs.InputError(f"{folder} is not named for a preset; pass --preset {' or --preset '.join(PRESETS)}")

    from hopscope.paper.presets import BY_NAME
    from hopscope.paper.reproduce import read, write_pages

    found = read(BY_NAME[name], folder)
    pages = [folder / "claims.json"] if claims_only else write_pages(found)
    return [claim.to_json() for claim in found.claims], "\n".join(map(str, pages))
