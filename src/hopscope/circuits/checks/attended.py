"""Do rows attend to what the circuit says, find it by content, and carry the answer by theory?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.checks.certificate import Part, tidy
from hopscope.circuits.checks.evidence import COUNTS, Evidence
from hopscope.circuits.checks.sampling import Measured, by_sequence
from hopscope.circuits.evaluate.ablations import Interventions, one_hot
from hopscope.circuits.evaluate.elsewhere import taken_from_elsewhere
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.theory.delivery import deliver

_MOST = 0.9
"""How much of the way from nothing to the model the circuit must keep with a row in its own form."""

_INDIFFERENT = 0.5
"""The share of a row's other keys that may serve as well; a few do where they hold the same symbol."""


def random_keys(evidence: Evidence) -> Part:
    """Each row alone put into its form, the rest making its own patterns; then pointed at every other role it may see.

    Passes if with every row in its own form the circuit keeps 90% of the way from nothing to the model, no other key
    serves it better for sure, and at most half of the others serve it as well. In the strict sense the rest is imposed
    too, save for `exempt` rows: these are judged among natural patterns, and must keep 90% of the way that the circuit
    goes with those. Rows without a path are not asked.
    """
    in_form = by_sequence(evidence.few, [{**evidence.around(row), row: evidence.program[row]} for row in evidence.rows])
    wrong, rows = [], []
    margin, visible, names = COUNTS * evidence.bar, evidence.evaluator.where.visible, evidence.evaluator.names
    for row, own in zip(evidence.rows, in_form, strict=True):
        claimed = {path.key for path in evidence.paths if path.row == row}
        if not claimed:
            continue
        others = [key for key in range(len(visible)) if key not in {*claimed, row.query} and visible[row.query, key]]
        programs: list[Interventions] = [{**evidence.around(row), row: one_hot(key)} for key in others]
        loss = float(own.mean())
        losses = evidence.settled(programs, max(loss, evidence.bar), evidence.base)
        better = [number for number, other in enumerate(losses) if other < loss - margin]
        gains = evidence.measured(list(own - by_sequence(evidence.few, [programs[number] for number in better])))
        sure = [others[number] for number, gain in zip(better, gains, strict=True) if gain.interval[0] > margin]
        as_good = sum(other <= max(loss, evidence.bar) for other in losses)
        kept = evidence.kept(row, loss)
        if kept < _MOST or sure or as_good > _INDIFFERENT * len(others):
            wrong.append(evidence.name(row))
        told = {names[key]: tidy(other) for key, other in zip(others, losses, strict=True)}
        found = {"row": evidence.name(row), "mse": tidy(loss), "kept": tidy(kept), "others": told}
        rows.append({**found, "better": [names[key] for key in sure]})
    says = f"each of {len(rows)} rows serves with its own key, and no other key serves it better"
    if wrong:
        says = f"{len(wrong)} of {len(rows)} rows do not attend to what is claimed, or might as well attend elsewhere: "
        says += "; ".join(wrong)
    return Part(bool(rows) and not wrong, says, {"rows": rows})


class _Moved(NamedTuple):
    """How much a hop's loss rises with a layer's attention taken from where the rows of a pair stand elsewhere.

    The layer counts from 0. The attention is taken by what is written and by the whole pattern, of which the lower rise
    counts since each has harmless causes of its own, and by the choice among what does not move; the higher of these
    two counts.
    """

    pair: int
    layer: int
    hop: int
    rise: Measured


@torch.no_grad()
def places(evidence: Evidence) -> Part:
    """The circuit with one layer's attention from sequences in which the rows of one pair stand elsewhere.

    This is done for each pair and each layer in turn: by pattern and by what is written, of which the one that costs
    less counts, and by the choice among what does not move (`circuits.evaluate.elsewhere`). In the strict sense, where
    patterns are imposed by role, it is done in the model as it is. Rows hold the same in both sequences, so that only a
    head that tells them apart by place loses something. Passes if the loss of no hop rises by the bar: the interval
    ends below. With one chain there is no other place, so this says nothing and does not pass.
    """
    program: Interventions = evidence.natural if evidence.sense == "natural" else {}

    def measure(evaluator: Evaluator) -> list[_Moved]:
        return list(_moved(evidence, evaluator, program))

    def doubtful(moved: list[_Moved]) -> bool:
        return any(one.rise.interval[0] <= evidence.bar <= one.rise.interval[1] for one in moved)

    moved = evidence.until_clear(measure, doubtful)
    if not moved:
        return Part(False, "there is one chain, so that nothing can stand elsewhere", {"moved": []})
    worst, passed = max(moved, key=lambda one: one.rise.mean), all(one.rise.interval[1] < evidence.bar for one in moved)
    what = f"with the attention of layer {worst.layer + 1} from where the rows of pair {worst.pair} stand elsewhere "
    what += f"the loss of x{worst.hop} rises by {worst.rise.mean:.2g}"
    said = "rows are told apart by what they hold, wherever they stand: at worst, " if passed else "it goes by place: "
    told = [
        {"pair": one.pair, "layer": one.layer + 1, "hop": one.hop, "rise": one.rise.mean, "interval": one.rise.interval}
        for one in moved
    ]
    return Part(passed, said + what, {"rise": worst.rise.mean, "moved": told})


def _moved(evidence: Evidence, evaluator: Evaluator, program: Interventions) -> Iterator[_Moved]:
    """The rise for every pair, layer and hop asked for; in a circuit, layers without a row in use are left out."""
    problem, used = evaluator.problem, sorted({row.layer for row in evidence.rows}) if program else None
    own, shares = evaluator.errors([program])[0], evaluator.shares_for([program])
    for pair in range(1, problem.hops + 1) if problem.chains > 1 else ():
        of_shares = [taken_from_elsewhere(share, program, pair, used) for share in shares]
        for taken in zip(*of_shares, strict=True):
            ways = [
                torch.cat([share.squared_errors(x) for share, x in zip(shares, some, strict=True)]) - own
                for some in zip(*(one[1:] for one in taken), strict=True)
            ]
            for number, hop in enumerate(problem.target_hops):
                *both, choice = (way[:, number] for way in ways)
                rise = max(min(both, key=_mean), choice, key=_mean)
                yield _Moved(pair, taken[0].layer, hop, evidence.measured([rise.double()])[0])


def _mean(values: Float[Tensor, " sequence"]) -> float:
    return float(values.mean())


def deliverability(evidence: Evidence) -> Part:
    """Does information flow (Section 5), along the paths that matter and no others, carry the last symbol to the query?

    Passes if it does. A path matters if switching its row off raises the loss of the circuit or of the model by a fifth
    of the bar. Paths that do not matter are idle, whatever the simulator makes of them; paths that matter but have no
    use in the simulator are listed as unexplained.
    """
    problem, roles, rows = evidence.problem, evidence.evaluator.names, evidence.rows
    effect = {row: max(evidence.rises[row], evidence.rises_in_model[row]) for row in rows}
    matters = [path for path in evidence.paths if effect[path.row] >= COUNTS * evidence.bar]
    idle = [path.describe(roles) for path in evidence.paths if path not in matters]
    flow = deliver(problem.hops, matters, evidence.evaluator.scene)
    layers, needed = len({path.layer for path in matters}), evidence.evaluator.layers_needed
    carried = f"its paths carry {problem.facts.values[-1]} to the query, under Assumptions 1 and 2, in {layers} layers"
    says = f"{carried}; {needed} would do" if flow.delivered else flow.broken
    if idle:
        says += f"; {len(idle)} of them change nothing"
    numbers = {
        "growth": [list(held) for held in flow.growth],
        "refused": [path.describe(roles) for path in flow.refused],
        "idle": idle,
        "unexplained": [path.describe(roles) for path in (*flow.refused, *flow.idle)],
        "delivered_if_waived": flow.delivered_if_waived,
        "effects": {evidence.name(row): tidy(one) for row, one in effect.items()},
        "used": sorted([layer + 1, head + 1] for layer, head in {row[:2] for row in rows}),
        "layers_used": layers,
        "layers_needed": needed,
    }
    return Part(flow.delivered, says, numbers)
