"""Are rows found by what they hold? Attention from where they stand elsewhere must serve as well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.certificate.evidence import Evidence
from hopscope.circuits.certificate.losses import Measured
from hopscope.circuits.certificate.part import Part, tidy
from hopscope.circuits.elsewhere import PatternsPut
from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.hypotheses import Rows
from hopscope.model.edit import Edit, Recorder

LOST = 0.5
"""Loss of a hop from which it is lost: what the mean of two rows costs that cannot be told apart."""


class _Moved(NamedTuple):
    """A hop's loss with the patterns of one layer, from 0, from where the rows of one pair stand elsewhere."""

    pair: int
    layer: int
    hop: int
    loss: Measured


def places(evidence: Evidence) -> Part:
    """The circuit with one layer's patterns from sequences in which the rows of one pair stand elsewhere.

    Each pair and each layer in turn; in the strict sense, where patterns are imposed by role, of the model as it is.
    What rows hold is the same in both sequences, so that only the way by place loses something. Passes if every hop is
    still answered: the interval of its loss ends below one half, which is what two rows cost that cannot be told
    apart. With one chain there is no other place, so this says nothing and does not pass.
    """
    program: Rows = evidence.natural if evidence.sense == "natural" else {}
    for evaluator in (evidence.rough, evidence.few, evidence.evaluator, evidence.more):
        moved = list(_moved(evidence, evaluator, program))
        if not any(one.loss.interval[0] <= LOST <= one.loss.interval[1] for one in moved):
            break
    if not moved:
        return Part(False, "there is one chain, so that nothing can stand elsewhere", {"moved": []})
    worst = max(moved, key=lambda one: one.loss.mean)
    passed = all(one.loss.interval[1] < LOST for one in moved)
    what, where = f"x{worst.hop} has a loss of {worst.loss.mean:.2g}", f"layer {worst.layer + 1}"
    says = f"patterns from where the rows of a pair stand elsewhere serve: at worst, those of {where}, {what}"
    if not passed:
        says = (
            f"rows are told apart by place: with the patterns of {where} from where those of pair {worst.pair} stand "
            f"elsewhere, {what}"
        )
    told = [
        {"pair": one.pair, "layer": one.layer + 1, "hop": one.hop, "mse": one.loss.mean, "interval": one.loss.interval}
        for one in moved
    ]
    return Part(passed, says, {"worst_mse": tidy(worst.loss.mean), "moved": told})


def _moved(evidence: Evidence, evaluator: Evaluator, program: Rows) -> Iterator[_Moved]:
    """Every pair, layer and hop asked for; layers without a row in use have nothing that could change."""
    problem, layers = evaluator.problem, range(evaluator.shape.layers)
    used = sorted({row.layer for row in evidence.rows}) if program else layers
    for pair in range(1, problem.hops + 1) if problem.chains > 1 else ():
        of_shares = [_errors(share, program, pair, used) for share in evaluator.shares]
        for layer, errors in zip(used, zip(*of_shares, strict=True), strict=True):
            losses = evidence.measured(list(torch.cat(errors).double().movedim(1, 0)))
            for hop, loss in zip(problem.target_hops, losses, strict=True):
                yield _Moved(pair, layer, hop, loss)


@torch.no_grad()
def _errors(
    evaluator: Evaluator, program: Rows, pair: int, layers: Sequence[int]
) -> list[Float[Tensor, "sequence hop"]]:
    """Errors by sequence, with the patterns of each of some layers from where rows of a pair stand elsewhere."""
    model, elsewhere = evaluator.transformer, evaluator.elsewhere(pair)
    there, here, found = elsewhere.sequences, _edit(evaluator, program), []
    x, y = model.embed(evaluator.batch.inputs[None]), model.embed(there.batch.inputs[None])
    for layer in range(max(layers, default=-1) + 1):
        seen = Recorder(_edit(there, program))
        y = model.run(y, start=layer, stop=layer + 1, edit=seen)
        if layer in layers:
            put = PatternsPut(layer, elsewhere.brought(seen.patterns[0]), ~elsewhere.block, here)
            found.append(evaluator.squared_errors(model.run(x, start=layer, edit=put, reads=evaluator.shape.reads)))
        x = model.run(x, start=layer, stop=layer + 1, edit=here)
    return found


def _edit(evaluator: Evaluator, program: Rows) -> Edit:
    return evaluator.edit(program) if program else Edit()
