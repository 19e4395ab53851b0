"""Check `delivery`: can the circuit's paths carry the answer, in the theory of information flow (Section 5)?"""

from __future__ import annotations

from dataclasses import dataclass

from hopscope.circuits.checks.card import Check
from hopscope.circuits.checks.evidence import COUNTS, Evidence
from hopscope.theory.delivery import Delivery, deliver


@dataclass(frozen=True)
class DeliveryFlow:
    """The flow of information along the paths that matter; None where the task has no theory.

    Attributes:
        flow: the flow.
        carried: what must reach the position of the answer.
        layers: how many layers have such a path.
        layers_needed: the fewest that the task needs.
        idle: paths that change nothing, in words.
    """

    flow: Delivery | None
    carried: str = ""
    layers: int = 0
    layers_needed: int = 0
    idle: tuple[str, ...] = ()


def measure_delivery(evidence: Evidence) -> DeliveryFlow:
    """Follow the flow along the paths that matter: without whose row the loss of the circuit, or of the model, rises by
    a fifth of the threshold; those of a group matter together."""
    counts, full = COUNTS * evidence.max_loss, evidence.levels.full
    in_model = evidence.settled([{row: evidence.off[row]} for row in evidence.rows], full + counts, {})
    rises = {
        row: max(float(evidence.lost[row].rise.mean()), loss - full)
        for row, loss in zip(evidence.rows, in_model, strict=True)
    }
    matter = [path for path in evidence.paths if path in evidence.grouped or rises[path.row] >= counts]
    flow = deliver(evidence.problem.hops, matter, evidence.evaluator.scene)
    idle = tuple(path.describe(evidence.evaluator.names) for path in evidence.paths if path not in matter)
    value, layers = evidence.problem.facts.values[-1], len({path.layer for path in matter})
    return DeliveryFlow(flow, value, layers, evidence.evaluator.layers_needed, idle)


def delivery(measured: DeliveryFlow) -> Check:
    """Passes if information flow, along the paths that matter and no others, carries the last symbol to the query."""
    flow = measured.flow
    if flow is None:
        return Check("delivery", "not asked", "the task has no theory of what must flow where")
    says = f"the paths carry {measured.carried} to the query under Assumptions 1 and 2, in {measured.layers} layers"
    says = f"{says}; {measured.layers_needed} would do" if flow.delivered else flow.broken
    if measured.idle:
        says += f"; {len(measured.idle)} paths change nothing"
    numbers = {"layers": float(measured.layers), "layers_needed": float(measured.layers_needed)}
    return Check("delivery", "passed" if flow.delivered else "failed", says, numbers)
