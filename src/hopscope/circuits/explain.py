"""The paths of a circuit with their numbers: mean attention, the loss without each path, and what reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hopscope.circuits.certificate import Evidence, tidy
from hopscope.circuits.certificate.losses import Lost
from hopscope.circuits.certificate.sampling import by_sequence
from hopscope.circuits.evaluate.patching import Patcher
from hopscope.circuits.record.elements import CircuitPath, Helper
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
            feeds=_feeds(uses.get(path.row, ()), evidence.bar),
        )
        for path, (mse, interval) in zip(evidence.paths, imposed, strict=True)
    )
    helpers = tuple(
        Helper(row.layer + 1, row.head + 1, evidence.evaluator.names[row.query], *natural[row])
        for row in evidence.helpers
    )
    return paths, helpers


def _feeds(uses: Sequence[Feed], bar: float) -> tuple[Feed, ...]:
    """The uses that count."""
    return tuple(
        replace(use, change=tidy(use.change), attention=tidy(use.attention))
        for use in uses
        if use.change >= _LEAST_CHANGE * bar or use.attention >= _LEAST_ATTENTION
    )
