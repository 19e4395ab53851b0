"""Check `delivery`: can the circuit's paths carry the answer, by information flow (Section 5)?"""

from __future__ import annotations

from hopscope.circuits.checks.card import Check
from hopscope.circuits.checks.evidence import COUNTS, Evidence
from hopscope.theory.information_flow import spread
from hopscope.theory.path_flow import Delivery, deliver


def check_delivery(evidence: Evidence) -> Check:
    """Follow the flow of information along the paths that matter.

    A path matters if it is in a group, or if a loss (circuit or model) rises by a fifth of the threshold without it.
    """
    if (scene := evidence.evaluator.scene) is None:
        return delivery(None)
    counts, (full,) = COUNTS * evidence.max_loss, evidence.fresh.mean_losses([{}])
    in_model = evidence.fresh.screened([{row: evidence.off[row]} for row in evidence.rows], full + counts, {})
    needed = {row for row, loss in zip(evidence.rows, in_model, strict=True) if loss >= full + counts}
    needed |= {row for row, lost in evidence.lost.items() if lost.rise.mean >= counts}
    matter = [path for path in evidence.paths if path in evidence.grouped or path.row in needed]
    flow, value = deliver(evidence.problem.hops, matter, scene), scene.pieces[scene.target]
    layers, idle = len({path.layer for path in matter}), len(evidence.paths) - len(matter)
    needs = (layer for layer, held in enumerate(spread(scene)) if held[scene.asker] >> scene.target & 1)
    return delivery(flow, value, layers, next(needs, None), idle)


def delivery(flow: Delivery | None, carried: str = "", layers: int = 0, needed: int | None = 0, idle: int = 0) -> Check:
    """Pass if information flow, along only the paths that matter, carries the last symbol to the query.

    `flow` is None if the task has no theory, and `carried` is what must reach the answer. `layers` have a path that
    matters, where `needed` (None: no number) would do under Assumptions 1 and 2; `idle` paths do not matter.
    """
    if flow is None:
        return Check("delivery", "not asked", "the task has no theory of what must flow where")
    says = f"the paths carry {carried} to the query under Assumptions 1 and 2, in {layers} layers"
    says = f"{says}; {needed} would do" if flow.delivered else flow.broken
    if idle:
        says += f"; {idle} paths change nothing"
    numbers = {"layers": float(layers), **({} if needed is None else {"layers_needed": float(needed)})}
    return Check("delivery", "passed" if flow.delivered else "failed", says, numbers)
