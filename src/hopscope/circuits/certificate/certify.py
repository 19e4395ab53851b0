"""Every part of a certificate, in the order in which a reader asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hopscope.circuits.certificate.circuit_alone import minimality, necessity, sufficiency
from hopscope.circuits.certificate.evidence import Evidence
from hopscope.circuits.certificate.flow import deliverability
from hopscope.circuits.certificate.harness import harness
from hopscope.circuits.certificate.keys import random_keys
from hopscope.circuits.certificate.outside import completeness, families, outside, recovery
from hopscope.circuits.certificate.part import Certificate, Part, Sense, tidy
from hopscope.circuits.certificate.untrained import untrained

PARTS: Mapping[str, Callable[[Evidence], Part]] = {
    "harness": harness,
    "sufficiency": sufficiency,
    "necessity": necessity,
    "minimality": minimality,
    "random_keys": random_keys,
    "recovery": recovery,
    "families": families,
    "outside": outside,
    "completeness": completeness,
    "deliverability": deliverability,
    "untrained": untrained,
}
"""By name."""


def certify(evidence: Evidence, watch: Callable[[str], None] | None = None) -> Certificate:
    """Judge a circuit. Nothing is tuned here; a circuit that fails a part is reported with the part it fails.

    Args:
        evidence: the circuit, fresh sequences, and the sense that is asked for.
        watch: told the name of each part before it begins.
    """
    found = {}
    for name, judge in PARTS.items():
        if watch is not None:
            watch(name)
        found[name] = judge(evidence).seeded(evidence.seed)
    return Certificate(evidence.sense, found)


def no_circuit(loss: float, bar: float, seed: int, sense: Sense = "natural") -> Certificate:
    """The certificate of a model in which no circuit holds the bar."""
    why = (
        f"the model's own loss, {loss:.3f}, is above the bar of {bar:g}: it does not solve the problem, so there is no "
        "circuit to find"
        if loss > bar
        else f"the model's own loss, {loss:.3f}, is so close to the bar of {bar:g} that no circuit holds it for sure"
    )
    part = Part(False, why, {"full_mse": tidy(loss), "bar": bar}, seed)
    return Certificate(sense, {"sufficiency": part})
