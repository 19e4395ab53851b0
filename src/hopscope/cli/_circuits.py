"""`hopscope circuit compare` and `census`: circuits that were found, side by side and counted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hopscope.errors import InputError

if TYPE_CHECKING:
    from hopscope.circuits.record import Circuit


@click.command("compare")
@click.argument("runs", nargs=-1, required=True, type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print the comparisons as JSON.")
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

    from hopscope.circuits.compare import compare as side_by_side
    from hopscope.circuits.text import describe_comparison

    circuits = {name: _load(name) for name in runs}
    _see_comparable(circuits)
    for first, second in combinations(circuits, 2):
        comparison = side_by_side(circuits[first], circuits[second])
        if as_json:
            click.echo(json.dumps({"first": first, "second": second, **asdict(comparison)}))
        else:
            click.echo(describe_comparison((first, second), comparison), nl=False)


def _see_comparable(circuits: Mapping[str, Circuit]) -> None:
    """See that circuits can be set side by side.

    Raises:
        InputError: a record says that there is none, or two are of different problems, whose paths are others.
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
@click.argument("runs", nargs=-1, required=True, type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print the census as JSON.")
def census(runs: tuple[str, ...], as_json: bool) -> None:
    """Count what many models learned: heads, strategies, mechanisms. Counts every circuit*.json of each folder.

    \b
    Examples:
      hopscope circuit census runs/*
      hopscope circuit census runs/a runs/b --json
    """
    from hopscope.circuits.compare import census as count
    from hopscope.circuits.text import describe_census

    circuits = [circuit for name in runs for circuit in _load_all(name)]
    counted = count(circuits)
    click.echo(json.dumps(counted) if as_json else describe_census(counted), nl=as_json)


def _load(name: str) -> Circuit:
    from hopscope.circuits.kept import circuit_path
    from hopscope.circuits.record import Circuit

    path = Path(name)
    if path.is_dir() and not circuit_path(path).exists():
        raise _without_circuit(path)
    return Circuit.load(circuit_path(path) if path.is_dir() else path)


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
