"""Check `delivery`: can the circuit's paths carry the answer, by information flow (Section 5)? And how do they?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hopscope.circuits.checks.card import Check, Strategy
from hopscope.circuits.checks.evidence import COUNTS, Evidence
from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.depth import minimum_one_head
from hopscope.theory.path_flow import Delivery, deliver, follow
from hopscope.theory.scene import text_scene


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
    counts, (full,) = COUNTS * evidence.max_loss, evidence.mean_losses([{}])
    in_model = evidence.screened([{row: evidence.off[row]} for row in evidence.rows], full + counts, {})
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


def strategy(problem: RetrievalProblem, paths: Sequence[AttentionPath]) -> Strategy:
    """How an answer to a problem comes about by some paths.

    A jump is a path between two pairs, or facts; paths from or to the query do not count. `serial`: the query walks the
    chain alone, and nothing jumps. `line by line`: in a chain, some pair jumps to its neighbour after that neighbour
    has jumped itself, the two then know one pair more than the longer of them knew, and the circuit has more layers
    than doubling takes in any order (Theorem 4). `doubling`: pairs jump, but not so; those that have jumped are read
    from further away, so that one retrieval step covers several hops. `none`: there are no paths.
    """
    if not paths:
        return "none"
    if not (jumps := [path for path in paths if 0 < problem.fact_of(path.query) != problem.fact_of(path.key) > 0]):
        return "serial"
    if problem.graph != "chain" or len({path.layer for path in paths}) <= minimum_one_head(problem.hops):
        return "doubling"
    scene = text_scene(problem)  # its roles begin with those of vectors
    history = follow(scene, paths, waive=True).history

    def known(layer: int, role: int) -> set[str]:
        pair = problem.fact_of(role)
        symbols = {symbol for symbol in scene.names(history[layer][role]) if symbol.startswith("x")}
        return symbols | {f"x{pair - 1}", f"x{pair}"}

    for layer, _, query, key in jumps:
        of_query, of_key = known(layer, query), known(layer, key)
        neighbours = abs(problem.fact_of(query) - problem.fact_of(key)) == 1
        if neighbours and len(of_key) > 2 and len(of_query | of_key) == max(len(of_query), len(of_key)) + 1:
            return "line by line"
    return "doubling"
