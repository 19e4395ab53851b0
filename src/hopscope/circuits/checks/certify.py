"""Every part of a certificate, in the order in which a reader asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from hopscope.circuits.checks.alone import minimality, necessity, sufficiency, untrained
from hopscope.circuits.checks.attended import deliverability, places, random_keys
from hopscope.circuits.checks.certificate import PART_NAMES, Certificate, Part, tidy
from hopscope.circuits.checks.evidence import Evidence
from hopscope.circuits.checks.harness import harness
from hopscope.circuits.checks.outside import completeness, families, outside, recovery
from hopscope.circuits.resume import Journal

_JUDGES: tuple[Callable[[Evidence], Part], ...] = (
    harness, sufficiency, necessity, minimality, random_keys, places, recovery, families, outside, completeness,
    deliverability, untrained,
)  # fmt: skip

PARTS: Mapping[str, Callable[[Evidence], Part]] = dict(zip(PART_NAMES, _JUDGES, strict=True))
"""The parts by name: functions that judge a circuit by its evidence."""


def certify(evidence: Evidence, journal: Journal | None = None) -> Certificate:
    """Judge a circuit; one that fails a part is reported with it. The journal remembers finished parts."""
    journal, found = journal or Journal(), {}
    for name, judge in PARTS.items():
        journal.progress(f"certificate: {name}", 1, 1)
        made = journal.once(f"certificate: {name}", partial(_judged, judge, evidence), evidence.evaluator)
        found[name] = Part.from_json(made, name)
    return Certificate(evidence.sense, found)


def _judged(judge: Callable[[Evidence], Part], evidence: Evidence) -> dict[str, Any]:
    return judge(evidence).seeded(evidence.seed).to_json()


def no_circuit(loss: float, bar: float, seed: int, *, rows_left: int = 0) -> Certificate:
    """The certificate of a model in which no circuit holds the bar, or for which the search was given up."""
    own = f"the model's own loss, {loss:.3f}, is"
    if loss > bar:
        why = f"{own} above the bar of {bar:g}: it does not solve the problem, so there is no circuit to find"
    elif rows_left:
        why = (
            f"{rows_left} rows of attention are left when all that is easily spared is off (the model's own loss is "
            f"{loss:.3f}, the bar {bar:g}): no small circuit, so the search was given up; `--effort thorough` goes on, "
            "a higher `--max-loss` or a model trained with `prune_every` may have a small one"
        )
    else:
        why = f"{own} so close to the bar of {bar:g} that no circuit holds it for sure"
    measured = {"full_mse": tidy(loss), "bar": bar} | ({"rows_left": rows_left} if rows_left else {})
    return Certificate("natural", {"sufficiency": Part(False, why, measured, seed)})
