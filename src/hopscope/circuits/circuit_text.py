"""The card of a circuit as text, in one screen of 80 columns."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING

from hopscope.circuits.checks.card import Baselines, Card, Check
from hopscope.circuits.checks.config import CertificateConfig
from hopscope.circuits.circuit_parts import ImposedCircuit

if TYPE_CHECKING:
    from hopscope.circuits.circuit import Circuit

_WIDTH = 80


def as_text(circuit: Circuit) -> str:
    """The card, the checks, the paths and the circuit of Appendix E."""
    lines = textwrap.wrap(circuit.headline, _WIDTH)
    if circuit.card:
        lines += ["", *_card(circuit.card)]
    lines += ["", *(line for check in circuit.checks.values() for line in _check(check))]
    given, usual = asdict(circuit.search.proof or CertificateConfig()), asdict(CertificateConfig())
    less = [f"{name} {given[name]} ({usual[name]})" for name in usual if given[name] < usual[name]]
    lines += [f"measured on less than usual: {', '.join(less)}"] * bool(less)
    lines += ["given, not searched for"] * circuit.search.given
    if circuit.found and not circuit.checks:
        lines.append("not re-evaluated: neither checks nor card were measured")
    if circuit.paths:
        lines += ["", *_paths(circuit)]
    for other in circuit.others:
        lines.append(f"also found: {len(other.paths)} paths, loss {other.mse:.3f}, {other.overlap:.0%} shared")
    if circuit.imposed:
        lines += ["", *_imposed(circuit.imposed)]
    return "\n".join(lines)


def _card(card: Card) -> list[str]:
    size, lines = card.size, []
    lines.append(
        f"size          {size.paths} paths; {size.active} active rows and {size.at_mean} at a mean: "
        f"{size.not_off / size.rows:.0%} of {size.rows}"
    )
    for name, shares in (("own patterns", card.own), ("imposed patterns", card.imposed)):
        ways = ", ".join(f"{way} {share:.3f}" for way, share in asdict(shares).items())
        lines.append(f"{'faithfulness' if shares is card.own else '':<13} {name}; rest {ways}")
    lines.append(f"curve         CPR {card.curve.cpr:.3f}, CMD {card.curve.cmd:.3f}")
    damage = card.completeness
    lines.append(
        f"completeness  {damage.whole:.2f} of the damage, worst row {damage.worst_row:.2f}, "
        f"worst key {damage.worst_key:.2f}"
    )
    lines += textwrap.wrap(f"baselines     {_baselines(card.baselines)}", _WIDTH, subsequent_indent=" " * 14)
    by = {"content": "content-based", "position": "position-based", "not asked": "content or position: not asked"}
    return [*lines, f"tags          {card.strategy}; {by[card.found_by]}"]


def _baselines(baselines: Baselines) -> str:
    """The faithfulness of other circuits of the same size."""
    random = f"best of {baselines.drawn} random circuits"
    told = [f"{random} " + ("not testable" if baselines.random is None else f"{baselines.random:.3f}")]
    for name, share in (
        ("ACDC", baselines.acdc),
        ("attribution", baselines.attribution),
        ("untrained heads", baselines.untrained),
    ):
        told.append(f"{name} " + ("not measured" if share is None else f"{share:.3f}"))
    return ", ".join(told)


def _check(check: Check) -> list[str]:
    outcome = {"passed": "pass", "failed": "FAIL"}.get(check.outcome, check.outcome)
    return textwrap.wrap(f"{outcome}  {check.name:<12}  {check.says}", _WIDTH, subsequent_indent=" " * 20)


def _paths(circuit: Circuit) -> list[str]:
    """A table of the paths: loss without each with own and with imposed patterns, and what it feeds."""
    rows = [["path", "weight", "own", "imposed", "feeds"]]
    for path in circuit.paths:
        layer, head, query, key = path.path.names(circuit.roles)
        without = (f"{loss.mean:.3f}" for loss in (path.without, path.without_imposed))
        uses = "; ".join(path.uses(circuit.roles)) or "-"
        rows.append([f"L{layer}.H{head} {query} -> {key}", f"{path.weight:.2f}", *without, uses])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["loss without each path:"]
    for row in rows:
        numbers = (cell.rjust(width) for cell, width in zip(row[1:4], widths[1:4], strict=True))
        line = "  ".join([row[0].ljust(widths[0]), *numbers, row[4]])
        lines.append(line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}...")
    return lines


def _imposed(circuit: ImposedCircuit) -> list[str]:
    """The circuit of Appendix E: its losses, and which checks it failed."""
    own = f", {circuit.own.mean:.3f} with own patterns" if circuit.own else ""
    line = f"imposed patterns (Appendix E): {len(circuit.paths)} paths, loss {circuit.loss(circuit.fill).mean:.3f}{own}"
    failed = [name for name, check in circuit.checks.items() if not check.passed]
    outcome = "unchecked" if not circuit.checks else f"failed {', '.join(failed)}" if failed else "passed all checks"
    heads = ", ".join(f"{layer}.{head}" for layer, head in circuit.fewest_heads)
    fewest = f"fewest whole heads: {heads}, loss {circuit.fewest_heads_loss.mean:.3f}"
    return [*textwrap.wrap(f"{line}; {outcome}", _WIDTH), *textwrap.wrap(fewest, _WIDTH)]
