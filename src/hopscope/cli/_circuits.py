"""`hopscope circuit compare` and `census`: circuits that were found, side by side and counted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hopscope.cli._common import GivenPath
from hopscope.errors import InputError

if TYPE_CHECKING:
    from hopscope.circuits.record import Circuit


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

    seen = set()
    for name in runs:
        if (record := _record(name).resolve()) in seen:
            raise InputError(f"{name} is given twice; name each circuit once")
        seen.add(record)

    from hopscope.circuits.compare import compare as side_by_side
    from hopscope.circuits.describe import describe_comparison

    circuits = {name: _load(name) for name in runs}
    _see_comparable(circuits)
    compared = {pair: side_by_side(*(circuits[name] for name in pair)) for pair in combinations(circuits, 2)}
    if as_json:
        told = [{"first": first, "second": second, **asdict(one)} for (first, second), one in compared.items()]
        click.echo(json.dumps(told[0] if len(told) == 1 else told))
        return
    for pair, one in compared.items():
        click.echo(describe_comparison(pair, one), nl=False)


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

    \b
    Examples:
      hopscope circuit census runs/*
      hopscope circuit census runs/a runs/b --json
    """
    from hopscope.circuits.compare import census as count
    from hopscope.circuits.describe import describe_census

    circuits = [circuit for name in runs for circuit in _load_all(name)]
    counted = count(circuits)
    click.echo(json.dumps(counted) if as_json else describe_census(counted), nl=as_json)


def _load(name: str) -> Circuit:
    from hopscope.circuits.record import Circuit

    record = _record(name)
    if Path(name).is_dir() and not record.exists():
        raise _without_circuit(Path(name))
    return Circuit.load(record)


def _record(name: str) -> Path:
    """The file of a circuit that is given as a file or by its folder."""
    from hopscope.circuits.kept import circuit_path

    return circuit_path(Path(name)) if Path(name).is_dir() else Path(name)


def _without_circuit(path: Path) -> InputError:
    return InputError(f"{path} holds no circuit; `hopscope circuit {path}` finds it")


def _load_all(name: str) -> list[Circuit]:
    from hopscope.circuits.record import Circuit

    path = Path(name)
    if not path.is_dir():
        return [Circuit.load(path)]
    found = sorted(path.glob("circuit*.json"))
    if not found:
        raise _without_circuit(path)
    return [Circuit.load(file) for file in found]
