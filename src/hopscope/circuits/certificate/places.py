"""Are rows found by what they hold? Then a layer's attention serves as well taken from where they stand elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.certificate.evidence import Evidence
from hopscope.circuits.certificate.losses import Measured
from hopscope.circuits.certificate.part import Part
from hopscope.circuits.evaluate.ablations import Interventions
from hopscope.circuits.evaluate.elsewhere import taken_from_elsewhere
from hopscope.circuits.evaluate.evaluator import Evaluator


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
