"""`hopscope circuit compare` and `census`: circuits that were found, side by side and counted."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hopscope.cli.options import PATH, json_option
from hopscope.errors import InputError
from hopscope.files import read_json
from hopscope.words import counted

if TYPE_CHECKING:
    from hopscope.circuits.circuit import Circuit


@click.command("compare")
@click.argument("paths", metavar="RUN...", nargs=-1, required=True, type=PATH)
@json_option("the comparison, a list of them for more circuits,")
def compare(paths: tuple[Path, ...], as_json: bool) -> None:
    """Set circuits side by side, each pair: same paths, same up to layer numbers, same mechanism?

    RUN is a folder whose circuit was found, or a circuit.json.

    \b
    Examples:
      hopscope circuit compare runs/a runs/b runs/c
      hopscope circuit compare runs/a/circuit.json runs/a/circuit-1.json --json
    """
    if len(paths) < 2:
        raise InputError(f"compare needs at least two circuits, got {len(paths)}; name another run")
    records = {str(path): path / "circuit.json" if path.is_dir() else path for path in paths}
    _check_different([str(path) for path in paths], {name: [record] for name, record in records.items()})

    from hopscope.circuits.circuit import Circuit
    from hopscope.circuits.compare import compare as compared

    circuits: dict[str, Circuit] = {}
    for name, record in records.items():
        if Path(name).is_dir() and not record.exists():
            raise _without_circuit(Path(name))
        circuits[name] = circuit = Circuit.load(record)
        if not circuit.found:
            raise InputError(f"{name} says that its model has no circuit; leave it out")
        first, before = next(iter(circuits.items()))
        if circuit.roles != before.roles:
            raise InputError(
                f"{first} is of {before.problem.named} and {name} of {circuit.problem.named}: circuits of one problem "
                "are compared, leave out the others"
            )
    pairs = [(names, compared(*(circuits[name] for name in names))) for names in combinations(circuits, 2)]
    if as_json:
        rows = [{"first": first, "second": second, **asdict(pair)} for (first, second), pair in pairs]
        click.echo(json.dumps(rows[0] if len(rows) == 1 else rows))
        return
    for names, pair in pairs:
        click.echo(pair.as_text(*names))


@click.command("census")
@click.argument("paths", metavar="RUN...", nargs=-1, required=True, type=PATH)
@json_option("the census")
def census(paths: tuple[Path, ...], as_json: bool) -> None:
    """Count what many models learned: heads, strategies, mechanisms. Counts every circuit*.json of each folder.

    Runs without one are named and not counted; what is no run, like the figures of a sweep, is left out.

    \b
    Examples:
      hopscope circuit census runs/*
      hopscope circuit census runs/a runs/b --json
    """
    from hopscope.circuits.circuit import Circuit
    from hopscope.circuits.compare import census as count

    others = [path for path in paths if _is_neither_run_nor_circuit(path)]
    records = {str(path): _records(path) for path in paths if path not in others}
    _check_different([str(path) for path in paths if path not in others], records)
    without = [Path(name) for name, found in records.items() if not found]
    circuits = [Circuit.load(record) for found in records.values() for record in found]
    if not circuits:
        raise _without_circuit((without or others)[0])
    if others:
        click.echo(f"left out, no run and no circuit: {', '.join(map(str, others))}", err=True)
    counts = count(circuits)
    if as_json:
        click.echo(json.dumps(counts.to_json() | {"without_record": len(without)}))
        return
    click.echo(counts)
    if without:
        click.echo(f"  {counted(len(without), 'run')} without a record, such as {without[0]}: not counted")


def _check_different(names: list[str], records: dict[str, list[Path]]) -> None:
    """Check that no record is given twice, by the same name or by another."""
    seen: set[Path] = set()
    for name in names:
        found = {record.resolve() for record in records[name]}
        if found & seen:
            raise InputError(f"{name} is given twice; name each circuit once")
        seen |= found


def _without_circuit(path: Path) -> InputError:
    if (path / "run.json").exists():
        return InputError(f"{path} holds no circuit; `hopscope circuit {path}` finds it")
    return InputError(f"{path} holds no circuit and is no run; give the folder of a run, or the record of a circuit")


def _records(path: Path) -> list[Path]:
    """The records of circuits that a folder holds, or the one that is given by itself."""
    return sorted(path.glob("circuit*.json")) if path.is_dir() else [path]


def _is_neither_run_nor_circuit(path: Path) -> bool:
    """Whether a path, as `runs/sweep/*` gives some, is neither a run nor a circuit: a folder, or another's record."""
    from hopscope.circuits.circuit import FORM

    if path.is_dir():
        return not ((path / "run.json").exists() or _records(path))
    fields = read_json(path, "the record of a circuit")
    return isinstance(fields, dict) and fields.get("kind", FORM.kind) != FORM.kind
