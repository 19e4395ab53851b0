"""The card of a circuit as text, in one screen of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict

from hopscope.circuits.checks.card import Baselines, Card, Check
from hopscope.circuits.checks.config import CertificateConfig
from hopscope.circuits.circuit_parts import CircuitPath, ImposedCircuit, SearchRecord

WIDTH = 80
"""The longest line."""


def search_lines(search: SearchRecord) -> list[str]:
    """On how little the numbers rest, and whether there was a search."""
    given, usual = asdict(search.proof or CertificateConfig()), asdict(CertificateConfig())
    less = [f"{name} {given[name]} ({usual[name]})" for name in usual if given[name] < usual[name]]
    lines = [f"measured on less than usual: {', '.join(less)}"] * bool(less)
    return lines + ["given, not searched for"] * (search.effort is None)


def card_lines(card: Card) -> list[str]:
    """The numbers of the card."""
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
    lines += textwrap.wrap(f"baselines     {_baselines(card.baselines)}", WIDTH, subsequent_indent=" " * 14)
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


def check_lines(check: Check) -> list[str]:
    """A check: whether it passed, and what was found."""
    outcome = {"passed": "pass", "failed": "FAIL"}.get(check.outcome, check.outcome)
    return textwrap.wrap(f"{outcome}  {check.name:<12}  {check.says}", WIDTH, subsequent_indent=" " * 20)


def path_lines(paths: Sequence[CircuitPath], roles: Sequence[str]) -> list[str]:
    """A table of the paths: loss without each with own and with imposed patterns, and what it feeds."""
    rows = [["path", "weight", "own", "imposed", "feeds"]]
    for path in paths:
        layer, head, query, key = path.path.names(roles)
        without = (f"{loss.mean:.3f}" for loss in (path.without, path.without_imposed))
        uses = "; ".join(path.uses(roles)) or "-"
        rows.append([f"L{layer}.H{head} {query} -> {key}", f"{path.weight:.2f}", *without, uses])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["loss without each path:"]
    for row in rows:
        numbers = (cell.rjust(width) for cell, width in zip(row[1:4], widths[1:4], strict=True))
        line = "  ".join([row[0].ljust(widths[0]), *numbers, row[4]])
        lines.append(line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}...")
    return lines


def imposed_lines(circuit: ImposedCircuit) -> list[str]:
    """The circuit of Appendix E: its losses, and which checks it failed."""
    own = f", {circuit.own.mean:.3f} with own patterns" if circuit.own else ""
    line = f"imposed patterns (Appendix E): {len(circuit.paths)} paths, loss {circuit.loss(circuit.fill).mean:.3f}{own}"
    failed = [name for name, check in circuit.checks.items() if not check.passed]
    outcome = "unchecked" if not circuit.checks else f"failed {', '.join(failed)}" if failed else "passed all checks"
    heads = ", ".join(f"{layer}.{head}" for layer, head in circuit.fewest_heads)
    fewest = f"fewest whole heads: {heads}, loss {circuit.fewest_heads_loss.mean:.3f}"
    return [*textwrap.wrap(f"{line}; {outcome}", WIDTH), *textwrap.wrap(fewest, WIDTH)]
