"""`hopscope circuit compare` and `census`: circuits that were found, side by side and counted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hopscope.cli.options import GivenPath
from hopscope.errors import InputError
from hopscope.files import read_json
from hopscope.words import counted

if TYPE_CHECKING:
    from hopscope.circuits.circuit import Circuit


@click.command("compare")
@click.argument("runs", nargs=-1, required=True, type=GivenPath())
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON, a list of them for more circuits.")
def compare(runs: tuple[str, ...], as_json: bool) -> None:
    """Set circuits side by side, each pair: same paths, same up to layer numbers, same mechanism?

    RUN is a folder whose circuit was found, or a circuit.json.

    \b
    Examples:
      hopscope circuit compare runs/a runs/b runs/c
      hopscope circuit compare runs/a/circuit.json runs/a/circuit-1.json --json
    """
    if len(runs) < 2:
        raise InputError(f"compare needs at least two circuits, got {len(runs)}; name another run")

    _see_once({name: [_record(name)] for name in runs}, runs)

    from hopscope.circuits.compare import compare as side_by_side

    circuits = {name: _load(name) for name in runs}
    _see_comparable(circuits)
    compared = {pair: side_by_side(*(circuits[name] for name in pair)) for pair in combinations(circuits, 2)}
    if as_json:
        told = [{"first": first, "second": second, **asdict(one)} for (first, second), one in compared.items()]
        click.echo(json.dumps(told[0] if len(told) == 1 else told))
        return
    for pair, one in compared.items():
        click.echo(one.as_text(*pair))


def _see_once(records: Mapping[str, Sequence[Path]], given: Sequence[str]) -> None:
    """Check that no record is given twice, by the same name or by another.

    Raises:
        InputError: one is.
    """
    seen: set[Path] = set()
    for name in given:
        there = {record.resolve() for record in records[name]}
        if there & seen:
            raise InputError(f"{name} is given twice; name each circuit once")
        seen |= there


def _see_comparable(circuits: Mapping[str, Circuit]) -> None:
    """Check that circuits can be compared.

    Raises:
        InputError: a record says that its model has no circuit, or two circuits are of different problems.
    """
    for name, circuit in circuits.items():
        if not circuit.found:
            raise InputError(f"{name} says that its model has no circuit; leave it out")
    (first, one), *others = circuits.items()
    for name, other in others:
        if one.roles != other.roles:
            raise InputError(
                f"{first} is of {one.problem.named} and {name} of {other.problem.named}: circuits of one problem are "
                "compared, leave out the others"
            )


@click.command("census")
@click.argument("runs", nargs=-1, required=True, type=GivenPath())
@click.option("--json", "as_json", is_flag=True, help="Print the census as JSON.")
def census(runs: tuple[str, ...], as_json: bool) -> None:
    """Count what many models learned: heads, strategies, mechanisms. Counts every circuit*.json of each folder.

    Runs without one are said and not counted; what is no run, like the figures of a sweep, is left out.

    \b
    Examples:
      hopscope circuit census runs/*
      hopscope circuit census runs/a runs/b --json
    """
    from hopscope.circuits.circuit import Circuit
    from hopscope.circuits.compare import census as count

    paths = [Path(name) for name in runs]
    others = [path for path in paths if _is_other(path)]
    records = {path: _records(path) for path in paths if path not in others}
    _see_once({str(path): found for path, found in records.items()}, [str(path) for path in paths if path in records])
    circuits = [Circuit.load(record) for found in records.values() for record in found]
    without = [path for path, found in records.items() if not found]
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


def _load(name: str) -> Circuit:
    from hopscope.circuits.circuit import Circuit

    record = _record(name)
    if Path(name).is_dir() and not record.exists():
        raise _without_circuit(Path(name))
    return Circuit.load(record)


def _record(name: str) -> Path:
    """The file of a circuit that is given as a file or by its folder."""
    from hopscope.circuits.store import circuit_path

    return circuit_path(Path(name)) if Path(name).is_dir() else Path(name)


def _without_circuit(path: Path) -> InputError:
    if (path / "run.json").exists():
        return InputError(f"{path} holds no circuit; `hopscope circuit {path}` finds it")
    return InputError(f"{path} holds no circuit and is no run; give the folder of a run, or the record of a circuit")


def _records(path: Path) -> list[Path]:
    """The records of circuits that a folder holds, or the one that is given by itself."""
    return sorted(path.glob("circuit*.json")) if path.is_dir() else [path]


def _is_other(path: Path) -> bool:
    """Whether a path, as `runs/sweep/*` gives some, is neither a run nor a circuit: a folder, or another's record."""
    from hopscope.circuits.circuit import FORM

    if path.is_dir():
        return not ((path / "run.json").exists() or _records(path))
    fields = read_json(path, "the record of a circuit")
    return isinstance(fields, dict) and fields.get("kind", FORM.kind) != FORM.kind
