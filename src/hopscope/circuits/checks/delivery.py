"""Check `delivery`: can the circuit's paths carry the answer, by information flow (Section 5)? And how do they?"""

from __future__ import annotations

from collections.abc import Sequence

from hopscope.circuits.checks.card import Check, Strategy
from hopscope.circuits.checks.evidence import COUNTS, Evidence
from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import Problem, RetrievalProblem
from hopscope.theory.depth import minimum_one_head
from hopscope.theory.path_flow import Delivery, deliver, follow
from hopscope.theory.scene import text_scene


def check_delivery(evidence: Evidence) -> Check:
    """Follow the flow along the paths that matter: without whose row the loss of the circuit, or of the model, rises by
    a fifth of the threshold; those of a group matter together."""
    if (scene := evidence.evaluator.scene) is None:
        return delivery(None)
    counts, (full,) = COUNTS * evidence.max_loss, evidence.mean_losses([{}])
    in_model = evidence.screened([{row: evidence.off[row]} for row in evidence.rows], full + counts, {})
    needed = {row for row, loss in zip(evidence.rows, in_model, strict=True) if loss >= full + counts}
    needed |= {row for row, lost in evidence.lost.items() if lost.rise.mean >= counts}
    matter = [path for path in evidence.paths if path in evidence.grouped or path.row in needed]
    flow, value = deliver(evidence.problem.hops, matter, scene), scene.pieces[scene.target]
    layers, idle = len({path.layer for path in matter}), len(evidence.paths) - len(matter)
    return delivery(flow, value, layers, evidence.evaluator.layers_needed, idle)


def delivery(flow: Delivery | None, carried: str = "", layers: int = 0, layers_needed: int = 0, idle: int = 0) -> Check:
    """Passes if information flow, along the paths that matter and no others, carries the last symbol to the query.

    Args:
        flow: the flow of information along these paths; None where the task has no theory.
        carried: what must reach the position of the answer.
        layers: how many layers have such a path.
        layers_needed: the fewest that the task needs.
        idle: how many paths change nothing.
    """
    if flow is None:
        return Check("delivery", "not asked", "the task has no theory of what must flow where")
    says = f"the paths carry {carried} to the query under Assumptions 1 and 2, in {layers} layers"
    says = f"{says}; {layers_needed} would do" if flow.delivered else flow.broken
    if idle:
        says += f"; {idle} paths change nothing"
    numbers = {"layers": float(layers), "layers_needed": float(layers_needed)}
    return Check("delivery", "passed" if flow.delivered else "failed", says, numbers)


def strategy(problem: Problem, paths: Sequence[AttentionPath]) -> Strategy:
    """How an answer to a problem comes about by some paths.

    A jump is a path between two pairs; paths from or to the query do not count. `serial`: the query walks the
    chain alone, and nothing jumps. `line by line`: in a chain, some pair jumps to its neighbour after that neighbour
    has jumped itself, the two then know one pair more than the longer of them knew, and the circuit has more layers
    than doubling takes in any order (Theorem 4). `doubling`: pairs jump, but not so; those that have jumped are read
    from further away, so that one retrieval step covers several hops. `none`: there are no paths; `not asked`: the
    task has no chains.
    """
    if not paths or not isinstance(problem, RetrievalProblem):
        return "not asked" if paths else "none"
    if not (jumps := [path for path in paths if 0 < problem.fact_of(path.query) != problem.fact_of(path.key) > 0]):
        return "serial"
    if len({path.layer for path in paths}) <= minimum_one_head(problem.hops):
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
