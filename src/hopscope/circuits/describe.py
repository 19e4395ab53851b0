"""The numbers of a circuit on sequences that no search saw: its paths, and the circuit of Appendix E."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from hopscope.circuits.checks import Evidence, Measured, check_in_stages, tidy
from hopscope.circuits.checks.evidence import Lost
from hopscope.circuits.circuit_parts import CircuitPath, Fill, Helper, ImposedCircuit, ImposedPath
from hopscope.circuits.evaluate.ablations import UNIFORM, Interventions
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.evaluate.patching import Patcher
from hopscope.circuits.resume import Search
from hopscope.circuits.search.appendix_e import FILLS, Imposed
from hopscope.model.hooks import PatchableModel
from hopscope.problem.paths import AttentionPath, Feed, HeadRow

_LEAST_ATTENTION = 0.1
"""How much a later path's attention must fall for it to count as fed."""

_LEAST_CHANGE = 0.2
"""How much the loss must rise, as a share of the threshold, for a use to count."""


def explained(evidence: Evidence) -> tuple[tuple[CircuitPath, ...], tuple[Helper, ...]]:
    """The paths with their ablations and uses, and the helper rows.

    Uses are not known of a module that somebody else wrote, since the insides of its heads are not.
    """
    without = evidence.losses(evidence.evaluator, [evidence.without(path) for path in evidence.paths], evidence.imposed)
    lost: list[tuple[HeadRow | AttentionPath, Lost]] = [*evidence.lost.items(), *evidence.lost_keys.items()]
    own = {part: evidence.measured(losses.without) for part, losses in lost}
    uses: dict[HeadRow, list[Feed]] = {}
    if isinstance(model := evidence.few.transformer, PatchableModel):
        patcher = Patcher(evidence.few, model, evidence.own)
        uses = {row: patcher.uses(evidence.paths, row) for row in evidence.rows}
    paths = tuple(
        CircuitPath(
            path,
            ablation=evidence.imposed[path.row].kind.value,
            weight=tidy(evidence.hypotheses.weights(path.row)[path.key]),
            without_imposed=evidence.measured(loss),
            without=own[path if path in evidence.partial else path.row],
            feeds=tuple(
                replace(use, change=tidy(use.change), attention=tidy(use.attention))
                for use in uses.get(path.row, ())
                if use.change >= _LEAST_CHANGE * evidence.max_loss or use.attention >= _LEAST_ATTENTION
            ),
        )
        for path, loss in zip(evidence.paths, without, strict=True)
    )
    names = evidence.evaluator.names
    return paths, tuple(Helper(row.layer + 1, row.head + 1, names[row.query], own[row]) for row in evidence.helpers)


def imposed_circuit(
    ends: Sequence[Imposed], heads: Interventions, units: Units, evidence: Evidence
) -> Search[ImposedCircuit]:
    """Measure and check what the procedure of Appendix E ended in."""
    best, roles = ends[0], evidence.problem.all_roles
    uniform = best
    for head in best.heads if best.paths else ():
        uniform = uniform.with_head(head, UNIFORM) if head[0] == best.paths[0].layer else uniform
    fills = [replace(best, fill=FILLS[fill]).interventions for fill in get_args(Fill)]
    *by_fill, first_uniform, whole, own = _losses(
        evidence, [*fills, uniform.interventions, heads, units.own_patterns(best.interventions)]
    )
    ways = [[left.interventions for left in best.without(path)] for path in best.paths]
    without = [min(_losses(evidence, candidates), key=lambda loss: loss.mean) for candidates in ways]
    checks, card = (yield from check_in_stages(evidence)) if best.paths else ({}, None)
    return ImposedCircuit(
        paths=tuple(ImposedPath(*path.names(roles), loss) for path, loss in zip(best.paths, without, strict=True)),
        **dict(zip(get_args(Fill), by_fill, strict=True)),
        fill=next(fill for fill in get_args(Fill) if FILLS[fill] == best.fill),
        first_layer_uniform=first_uniform,
        fewest_heads=tuple(sorted({(row.layer + 1, row.head + 1) for row in units.on(heads)})),
        fewest_heads_loss=whole,
        others=tuple(tuple(path.names(roles) for path in end.paths) for end in ends[1:]),
        own=own,
        checks=checks,
        card=card,
    )


def _losses(evidence: Evidence, candidates: Sequence[Interventions]) -> list[Measured]:
    """Losses on fresh sequences, with their intervals."""
    return [*map(evidence.measured, evidence.losses(evidence.evaluator, candidates))]
