"""Redundant paths: what steps in where a path of a circuit is taken from the model (backup heads, Wang et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from hopscope.circuits.evaluate.ablations import UNIFORM, Interventions, one_hot
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.units import Units
from hopscope.problem.paths import HeadRow, PathGroup

_SEQUENCES = 64
"""How many sequences backups are looked for on; the checks decide on others."""

_MANY = 512
"""With more pairs of a row and a possible backup than this, which take a pass each, none are looked for."""


def with_backups(
    evaluator: Evaluator, units: Units, circuit: Interventions, max_loss: float
) -> tuple[Interventions, tuple[PathGroup, ...]]:
    """A circuit with its backup paths, and the groups of two paths of which one suffices.

    A row of the circuit may have a backup if the model stays below the threshold without it. A row outside is a backup
    if it does not without both. With all backups in the circuit, two paths are a group if the circuit stays below the
    threshold without either, and not without both; a backup that is in no group is left out again.
    """
    few = evaluator.part(_SEQUENCES)
    active, outside = units.on(circuit), [row for row in units.rows if units.heavy(row)]
    outside = [row for row in outside if row not in active and circuit[row] == UNIFORM]
    without = few.mse([{row: UNIFORM} for row in active])
    redundant = [row for row, loss in zip(active, without, strict=True) if loss <= max_loss]
    pairs = [(row, other) for row in redundant for other in outside]
    both = few.mse([{row: UNIFORM, other: UNIFORM} for row, other in pairs]) if len(pairs) <= _MANY else []
    backups = sorted({other for (_, other), loss in zip(pairs, both, strict=False) if loss > max_loss})
    while backups:
        grown = circuit | {row: one_hot(units.heavy(row)[0]) for row in backups}
        groups = _groups(few, units, grown, [*redundant, *backups], max_loss)
        grouped = {path.row for group in groups for path in group.paths}
        left = [row for row in backups if row in grouped]
        if left == backups:
            return grown, groups
        backups = left
    return circuit, ()


def _groups(
    few: Evaluator, units: Units, circuit: Interventions, rows: Sequence[HeadRow], max_loss: float
) -> tuple[PathGroup, ...]:
    """The pairs of rows with one path each, without either of which a circuit is below the threshold, and not without
    both; none where the circuit itself is not below it."""
    own = units.own_patterns(circuit)
    paths = {row: [path for path in units.paths(circuit) if path.row == row] for row in rows}
    single = {row: of_row[0] for row, of_row in paths.items() if len(of_row) == 1}
    few.depart_from(own)
    whole, *without = few.mse([own, *({**own, row: UNIFORM} for row in single)])
    if whole > max_loss:
        return ()
    spare = [row for row, loss in zip(single, without, strict=True) if loss <= max_loss]
    pairs = [*combinations(spare, 2)]
    both = few.mse([{**own, row: UNIFORM, other: UNIFORM} for row, other in pairs])
    needed = (pair for pair, loss in zip(pairs, both, strict=True) if loss > max_loss)
    return tuple(PathGroup((single[row], single[other])) for row, other in needed)
