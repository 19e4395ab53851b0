"""Circuits as an older hopscope certified them."""

from __future__ import annotations

from dataclasses import replace

from hopscope.circuits.record.circuit import Circuit


def by_rules(circuit: Circuit, rules: int) -> Circuit:
    """The same circuit, both its certificates by other rules."""
    strict = circuit.strict and replace(circuit.strict, certificate=replace(circuit.strict.certificate, rules=rules))
    return replace(circuit, certificate=replace(circuit.certificate, rules=rules), strict=strict)
