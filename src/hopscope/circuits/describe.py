"""The numbers of a circuit that was found, on sequences that no search saw: its paths, and the strict reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from hopscope.circuits.checks import Certificate, Evidence, certify, tidy
from hopscope.circuits.checks.sampling import Lost, by_sequence
from hopscope.circuits.circuit_parts import CircuitPath, Fill, Helper, Loss, StrictPath, StrictReading
from hopscope.circuits.evaluate.ablations import UNIFORM, Interventions
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.evaluate.patching import Patcher
from hopscope.circuits.search.appendix_e import FILLS, Imposed
from hopscope.model.hooks import PatchableModel
from hopscope.problem.paths import AttentionPath, Feed, HeadRow

_LEAST_ATTENTION = 0.1
"""How much a later path's attention must fall for it to count as fed."""

_LEAST_CHANGE = 0.2
"""How much the loss must rise, as a share of the bar, for a use to count."""


def explained(evidence: Evidence) -> tuple[tuple[CircuitPath, ...], tuple[Helper, ...]]:
    """The paths with their ablations and uses, and the helper rows.

    Uses are not known of a module that somebody else wrote, since the insides of its heads are not.
    """
    without = by_sequence(evidence.evaluator, [evidence.without(path) for path in evidence.paths])
    imposed = evidence.measured(list(without))
    lost: list[tuple[HeadRow | AttentionPath, Lost]] = [*evidence.lost.items(), *evidence.lost_keys.items()]
    measured = evidence.measured([one.without for _, one in lost])
    natural = {where: loss for (where, _), loss in zip(lost, measured, strict=True)}
    partial = {*evidence.partial}
    without_path = {path: path if path in partial else path.row for path in evidence.paths}
    uses: dict[HeadRow, list[Feed]] = {}
    if isinstance(model := evidence.few.transformer, PatchableModel):
        patcher = Patcher(evidence.few, model, evidence.natural)
        uses = {row: patcher.uses(evidence.paths, row) for row in evidence.rows}
    paths = tuple(
        CircuitPath(
            path,
            form=evidence.program[path.row].kind.value,
            weight=tidy(evidence.hypotheses.weights(path.row)[path.key]),
            ablation_mse=mse,
            interval=interval,
            natural_mse=natural[without_path[path]].mean,
            natural_interval=natural[without_path[path]].interval,
            feeds=tuple(
                replace(use, change=tidy(use.change), attention=tidy(use.attention))
                for use in uses.get(path.row, ())
                if use.change >= _LEAST_CHANGE * evidence.bar or use.attention >= _LEAST_ATTENTION
            ),
        )
        for path, (mse, interval) in zip(evidence.paths, imposed, strict=True)
    )
    helpers = tuple(
        Helper(row.layer + 1, row.head + 1, evidence.evaluator.names[row.query], *natural[row])
        for row in evidence.helpers
    )
    return paths, helpers


def strict_reading(ends: Sequence[Imposed], heads: Interventions, units: Units, evidence: Evidence) -> StrictReading:
    """Measure and certify what the strict search ended in."""
    best, roles = ends[0], evidence.problem.all_roles
    uniform = best
    for head in best.heads if best.paths else ():
        uniform = uniform.with_head(head, UNIFORM) if head[0] == best.paths[0].layer else uniform
    fills = [replace(best, fill=FILLS[fill]).program for fill in get_args(Fill)]
    *by_fill, first_uniform, whole = _losses(evidence, [*fills, uniform.program, heads])
    ways = [[left.program for left in best.without(path)] for path in best.paths]
    without = [min(_losses(evidence, programs), key=lambda loss: loss.mse) for programs in ways]
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
