"""The circuit against the theory: do its paths carry the answer, and do those that carry it matter?"""

from __future__ import annotations

from hopscope.circuits.checks.certificate import Part, tidy
from hopscope.circuits.checks.evidence import COUNTS, Evidence
from hopscope.theory.delivery import deliver


def deliverability(evidence: Evidence) -> Part:
    """Does information flow (Section 5), along the paths that matter and no others, carry the last symbol to the query?

    Passes if it does. A path matters if switching its row off raises the loss of the circuit or of the model by a fifth
    of the bar. Paths that do not matter are idle, whatever the simulator makes of them; paths that matter but have no
    use in the simulator are listed as unexplained.
    """
    problem, roles, rows = evidence.problem, evidence.evaluator.names, evidence.rows
    effect = {row: max(evidence.rises[row], evidence.rises_in_model[row]) for row in rows}
    matters = [path for path in evidence.paths if effect[path.row] >= COUNTS * evidence.bar]
    idle = [path for path in evidence.paths if path not in matters]
    flow = deliver(problem.hops, matters, evidence.evaluator.scene)
    layers = {path.layer for path in matters}
    needed = evidence.evaluator.layers_needed
    says = (
        f"its paths carry {problem.facts.values[-1]} to the query, under Assumptions 1 and 2, in {len(layers)} layers; "
        f"{needed} would do"
    )
    if not flow.delivered:
        says = flow.broken
    if idle:
        says += f"; {len(idle)} of them change nothing"
    return Part(
        flow.delivered,
        says,
        {
            "growth": [list(held) for held in flow.growth],
            "refused": [path.describe(roles) for path in flow.refused],
            "idle": [path.describe(roles) for path in idle],
            "unexplained": [path.describe(roles) for path in (*flow.refused, *flow.idle)],
            "delivered_if_waived": flow.delivered_if_waived,
            "effects": {evidence.name(row): tidy(one) for row, one in effect.items()},
            "used": sorted([row.layer + 1, row.head + 1] for row in {row[:2]: row for row in rows}.values()),
            "layers_used": len(layers),
            "layers_needed": needed,
        },
    )
