"""The parts of a circuit as lines of text, which `print(circuit)` puts together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import get_args

from hopscope.circuits.checks import CertificateConfig
from hopscope.circuits.checks.certificate import Certificate
from hopscope.circuits.circuit_parts import CircuitPath, Fill, OtherCircuit, SearchRecord, StrictReading
from hopscope.words import counted


def paths_as_text(paths: Sequence[CircuitPath], roles: Sequence[str]) -> list[str]:
    """The paths as a table: where each is, what the loss is without it, and what it feeds."""
    return _table(
        ["layer", "head", "path", "weight", "loss without", "own patterns", "feeds"],
        [
            [
                *_where(*one.path.names(roles)),
                f"{one.weight:.2f}",
                f"{one.ablation_mse:.3f}",
                f"{one.natural_mse:.3f}",
                "; ".join(one.uses(roles)) or "-",
            ]
            for one in paths
        ],
    )


def certificate_as_text(certificate: Certificate, bar: float) -> list[str]:
    """A line for each part of a certificate, then at which bars it would hold."""
    parts = certificate.parts.items()
    return [
        *(f"{'pass' if part.passed else 'FAIL'}  {name:<15} {part.says}" for name, part in parts),
        *_bars(certificate, bar),
    ]


def search_as_text(search: SearchRecord) -> list[str]:
    """On how little a certificate rests, and whether there was a search."""
    asked, usual = asdict(search.proof or CertificateConfig()), asdict(CertificateConfig())
    less = [f"{name} {asked[name]} ({number})" for name, number in usual.items() if asked[name] < number]
    given = "given, not searched for: which other circuits the model holds was not asked"
    return [f"on less than the usual proof: {', '.join(less)}"] * bool(less) + [given] * search.given


def others_as_text(others: Sequence[OtherCircuit]) -> list[str]:
    """The other circuits that a search ended in; empty where there are none."""
    told = [
        f"  {counted(len(other.paths), 'path')}, loss {other.mse:.3f}, {other.overlap:.0%} shared with this one"
        for other in others
    ]
    return ["", "Other circuits the search ended in:", *told] if told else []


def strict_as_text(strict: StrictReading, bar: float) -> list[str]:
    """What the paper's own procedure found, with its certificate."""
    lines = [
        f"Strict reading (Appendix E): {counted(len(strict.paths), 'path')} in {counted(len(strict.heads), 'head')}, "
        "loss "
        + ", ".join(f"{strict.loss(fill).mse:.3f} ({fill})" for fill in get_args(Fill))
        + " with other rows so filled",
    ]
    if strict.paths:
        rows = [[*_where(*path.where), f"{path.without.mse:.3f}"] for path in strict.paths]
        lines += [*_table(["layer", "head", "path", "loss without"], rows)]
        lines.append(f"with layer {strict.first_layer} uniform as a whole: {strict.first_layer_uniform.mse:.3f}")
    if strict.natural:
        lines.append(f"with the model's own patterns in its paths' rows: {strict.natural.mse:.3f}")
    heads = ", ".join(f"{layer}.{head}" for layer, head in strict.fewest_heads)
    lines.append(f"fewest whole heads found: {heads}, loss {strict.fewest_heads_loss.mse:.3f}")
    return [*lines, "", *certificate_as_text(strict.certificate, bar)]


def _bars(certificate: Certificate, bar: float) -> list[str]:
    """How much depends on where the bar is; empty without a certificate, which says it."""
    least, most = certificate.number("sufficiency", "least_bar"), certificate.number("necessity", "most_bar")
    if least is None or most is None:
        return []
    where = f"any bar from {least:.3f} to {most:.3f}" if least < most else f"no bar: {least:.3f} is too low for the one"
    where += "" if least < most else f", {most:.3f} too high for the other"
    return [f"sufficiency and necessity would hold at {where}; the bar is {bar:g}"]


def _where(layer: int, head: int, query: str, key: str) -> list[str]:
    return [str(layer), str(head), f"{query} -> {key}"]


def _table(header: list[str], rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    right = {0, 1, 3, 4, 5}

    def line(row: list[str]) -> str:
        cells = (
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return "  ".join(cells).rstrip()

    return [line(header), *map(line, rows)]
