"""The strict reading of a model: what the procedure of Appendix E finds, measured on sequences that it never saw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from hopscope.circuits.certificate import Certificate, Evidence, certify
from hopscope.circuits.evaluate.ablations import UNIFORM, Interventions
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.record.strict_reading import Fill, Loss, StrictPath, StrictReading
from hopscope.circuits.search.appendix_e import FILLS, Imposed


def strict_reading(ends: Sequence[Imposed], heads: Interventions, units: Units, evidence: Evidence) -> StrictReading:
    """Measure and certify what the strict search ended in.

    Args:
        ends: what its orders ended in, the best one first.
        heads: the program of the fewest whole heads.
        units: the units of the search.
        evidence: the evidence on the best end, in the strict sense.
    """
    best, roles = ends[0], evidence.problem.all_roles
    uniform = best
    for head in best.heads if best.paths else ():
        uniform = uniform.with_head(head, UNIFORM) if head[0] == best.paths[0].layer else uniform
    fills = [replace(best, fill=FILLS[fill]).program for fill in get_args(Fill)]
    *by_fill, first_uniform, whole = _losses(evidence, [*fills, uniform.program, heads])
    without = [min(_losses(evidence, [left.program for left in best.without(path)]), key=_mse) for path in best.paths]
    (natural,) = _losses(evidence, [units.natural(best.program)])
    return StrictReading(
        paths=tuple(StrictPath(*path.names(roles), loss) for path, loss in zip(best.paths, without, strict=True)),
        **dict(zip(get_args(Fill), by_fill, strict=True)),
        fill=next(fill for fill in get_args(Fill) if FILLS[fill] == best.fill),
        first_layer_uniform=first_uniform,
        fewest_heads=tuple(sorted({(row.layer + 1, row.head + 1) for row in units.on(heads)})),
        fewest_heads_loss=whole,
        others=tuple(tuple(path.names(roles) for path in end.paths) for end in ends[1:]),
        natural=natural,
        certificate=certify(evidence) if best.paths else Certificate("strict"),
    )


def _losses(evidence: Evidence, programs: Sequence[Interventions]) -> list[Loss]:
    """Losses on fresh sequences, with their intervals."""
    errors = evidence.evaluator.errors(programs).double().mean(dim=2)
    return [Loss(*measured) for measured in evidence.measured(list(errors))]


def _mse(loss: Loss) -> float:
    return loss.mse
