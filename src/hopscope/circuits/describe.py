"""Circuits as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import get_args

from hopscope.circuits.census import Census
from hopscope.circuits.certificate import Proof
from hopscope.circuits.certificate.part import Certificate
from hopscope.circuits.compare import Comparison
from hopscope.circuits.record import Circuit
from hopscope.circuits.strategy import strategy
from hopscope.circuits.strict_reading import Fill, StrictReading
from hopscope.words import counted


def describe(circuit: Circuit) -> str:
    """A circuit: its paths as a table, then the certificate."""
    lines = [headline(circuit), ""]
    if circuit.found:
        lines += _table(
            ["layer", "head", "path", "weight", "loss without", "own patterns", "feeds"],
            [
                [
                    *_where(*one.path.names(circuit.roles)),
                    f"{one.weight:.2f}",
                    f"{one.ablation_mse:.3f}",
                    f"{one.natural_mse:.3f}",
                    "; ".join(one.uses(circuit.roles)) or "-",
                ]
                for one in circuit.paths
            ],
        )
        lines.append("")
    lines += [*_certificate(circuit.certificate), *_bars(circuit.certificate, circuit.bar)]
    lines += [*_tried(circuit), *_thin(circuit)]
    if circuit.search.get("given"):
        lines.append("given, not searched for: which other circuits the model holds was not asked")
    if circuit.others:
        lines += ["", "Other circuits the search ended in:"]
        for other in circuit.others:
            lines.append(
                f"  {counted(len(other.paths), 'path')}, loss {other.mse:.3f}, {other.overlap:.0%} shared with this one"
            )
    if circuit.strict:
        lines += ["", *_strict(circuit.strict, circuit.bar)]
    return "\n".join(lines) + "\n"


def _strict(strict: StrictReading, bar: float) -> list[str]:
    """What the paper's own procedure found."""
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
    return [*lines, "", *_certificate(strict.certificate), *_bars(strict.certificate, bar)]


def _certificate(certificate: Certificate) -> list[str]:
    return [f"{'pass' if part.passed else 'FAIL'}  {name:<15} {part.says}" for name, part in certificate.parts.items()]


def _bars(certificate: Certificate, bar: float) -> list[str]:
    """How much depends on where the bar is; empty for older records, which do not say."""
    least, most = certificate.number("sufficiency", "least_bar"), certificate.number("necessity", "most_bar")
    if least is None or most is None:
        return []
    where = f"any bar from {least:.3f} to {most:.3f}" if least < most else f"no bar: {least:.3f} is too low for the one"
    where += "" if least < most else f", {most:.3f} too high for the other"
    return [f"sufficiency and necessity would hold at {where}; the bar is {bar:g}"]


def _tried(circuit: Circuit) -> list[str]:
    """How clear of each bar its circuit stands; empty where the search was done at one bar only."""
    tried = circuit.search.get("bars", [])
    told = [
        f"{one['bar']:g} ({counted(one['paths'], 'path')}, loss {one['mse']:.3f}, without a row {one['least']:.3f} or "
        "more)"
        if one["paths"]
        else f"{one['bar']:g} (none)"
        for one in tried
    ]
    return [f"searched for at {', '.join(told)}; {circuit.bar:g} is where it stands clearest"] if tried else []


def _thin(circuit: Circuit) -> list[str]:
    """In what its certificates rest on less than usual; empty for older records, which do not say."""
    asked, usual = circuit.search.get("proof", {}), asdict(Proof())
    less = [f"{name} {asked[name]} ({number})" for name, number in usual.items() if asked.get(name, number) < number]
    return [f"on less than the usual proof: {', '.join(less)}"] if less else []


def _where(layer: int, head: int, query: str, key: str) -> list[str]:
    return [str(layer), str(head), f"{query} -> {key}"]


def headline(circuit: Circuit) -> str:
    """A circuit in a line: whether it is certified, of which model, how many paths, and their loss."""
    model = circuit.text.name if circuit.text else f"model {circuit.model} (seed {circuit.seed})"
    what = f"{model}, {circuit.problem.named}, "
    what += f"{circuit.layers} layers x {circuit.heads}"
    if not circuit.found:
        return f"no circuit: {what}, loss {circuit.losses['full']:.3f}"
    paths, heads = counted(len(circuit.paths), "path"), counted(len(circuit.used_heads), "head")
    return (
        f"{circuit.verdict} circuit: {what}; {paths} in {heads}, {strategy(circuit)}; "
        f"loss {circuit.losses['imposed']:.3f} alone, {circuit.losses['full']:.3f} in the model"
    )


def describe_comparison(names: Sequence[str], comparison: Comparison) -> str:
    """The comparison of two circuits, in a few lines."""
    if comparison.identical:
        sameness = "the same circuit"
    elif comparison.same_order:
        sameness = "the same up to layer and head numbers"
    elif comparison.same_mechanism:
        sameness = "the same mechanism, laid out otherwise"
    else:
        sameness = "different mechanisms"
    lines = [f"{names[0]} and {names[1]}: {sameness}; {comparison.step_overlap:.0%} of their steps are shared"]
    for title, paths in (
        ("both", comparison.shared),
        (f"only {names[0]}", comparison.only_first),
        (f"only {names[1]}", comparison.only_second),
        ("steps of both, wherever they stand", comparison.shared_steps),
    ):
        lines += [f"  {title}:", *(f"    {path}" for path in paths)] if paths else []
    return "\n".join(lines) + "\n"


def describe_census(census: Census) -> str:
    """The census of many circuits, in a few lines."""
    have = "has" if census.models == 1 else "have"
    lines = [
        f"{census.with_circuit} of {counted(census.models, 'model')} {have} a circuit, "
        f"{census.certified['natural']} certified in the natural reading, {census.certified['strict']} in the "
        "strict one; "
        f"in {census.first_head_ties_pairs} the first layer in use ties the members of pairs"
    ]
    for name in ("heads", "layers", "paths", "strategies"):
        counts = ", ".join(f"{value}: {count}" for value, count in getattr(census, name).items())
        lines.append(f"  {name:<11} {counts or '-'}")
    for mechanism in census.mechanisms:
        steps = ", ".join(f"{step.query} -> {step.key} ({step.depth})" for step in mechanism.steps)
        lines.append(f"  {mechanism.count} x {steps}")
    return "\n".join(lines) + "\n"


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
