"""Do rows attend to what the circuit says, and find it by content, wherever it stands?"""

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
    margin = COUNTS * evidence.bar
    for row, own in zip(evidence.rows, in_form, strict=True):
        claimed = {path.key for path in evidence.paths if path.row == row}
        if not claimed:
            continue
        others = [
            key
            for key in range(evidence.evaluator.where.roles)
            if key not in claimed and key != row.query and bool(evidence.evaluator.where.visible[row.query, key])
        ]
        programs: list[Interventions] = [{**evidence.around(row), row: one_hot(key)} for key in others]
        loss = float(own.mean())
        losses = evidence.settled(programs, max(loss, evidence.bar), evidence.base)
        better = [key for key, other in zip(others, losses, strict=True) if other < loss - margin]
        rival = by_sequence(evidence.few, [programs[others.index(key)] for key in better])
        sure = [
            key
            for key, less in zip(better, evidence.measured(list(own - rival)), strict=True)
            if less.interval[0] > margin
        ]
        as_good = sum(other <= max(loss, evidence.bar) for other in losses)
        kept = evidence.kept(row, loss)
        right = kept >= _MOST and not sure and as_good <= _INDIFFERENT * len(others)
        wrong += [] if right else [evidence.name(row)]
        names = evidence.evaluator.names
        rows.append(
            {
                "row": evidence.name(row),
                "mse": tidy(loss),
                "kept": tidy(kept),
                "others": {names[key]: tidy(other) for key, other in zip(others, losses, strict=True)},
                "better": [names[key] for key in sure],
            }
        )
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
