"""Check `right_keys`: does each row attend to the keys that the circuit names, and would other keys serve as well?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hopscope.circuits.checks.card import Check
from hopscope.circuits.checks.evidence import COUNTS, Evidence
from hopscope.circuits.evaluate.ablations import Interventions, one_hot
from hopscope.problem.paths import HeadRow

_FAITHFUL = 0.9
"""The faithfulness that the circuit must have with the pattern of one row imposed."""

_INDIFFERENT = 0.5
"""The largest share of a row's other keys that may serve as well as the named key; some hold the same symbol."""


@dataclass(frozen=True)
class ImposedRow:
    """The measurements of one row with its pattern imposed, while the rest of the circuit is unchanged.

    Attributes:
        name: the name of the row.
        faithfulness: the circuit's faithfulness with the claimed pattern.
        others: number of other keys that the row can attend to.
        as_good: number of these other keys with which the loss is no higher, or is below the threshold.
        better: other keys with which the loss is surely lower by more than a fifth of the threshold.
    """

    name: str
    faithfulness: float
    others: int
    as_good: int
    better: tuple[str, ...] = ()


def check_right_keys(evidence: Evidence) -> Check:
    """For each row with a path, impose the claimed pattern on this row alone, and then each other visible key."""
    return right_keys([_imposed(evidence, row) for row in evidence.rows if row not in evidence.helpers])


def _imposed(evidence: Evidence, row: HeadRow) -> ImposedRow:
    """Measure a row in the circuit without its backups, which would step in if the row attended to another key."""
    visible, names = evidence.evaluator.where.visible, evidence.evaluator.names
    claimed = {path.key for path in evidence.paths if path.row == row}
    others = [key for key in range(len(visible)) if key not in {*claimed, row.query} and visible[row.query, key]]
    around = evidence.around(row) | evidence.without_backups(row)
    candidates: list[Interventions] = [around | {row: one_hot(key)} for key in others]
    (own,) = evidence.fresh.losses(evidence.fresh.few, [around | {row: evidence.imposed[row]}])
    loss, margin = float(own.mean()), COUNTS * evidence.max_loss
    (faithfulness,) = evidence.faithfulness([loss], evidence.own if row in evidence.exempt else {})
    limit = max(loss, evidence.max_loss)
    losses = evidence.fresh.screened(candidates, limit)
    lower = [number for number, other in enumerate(losses) if other < loss - margin]
    gains = own - evidence.fresh.losses(evidence.fresh.few, [candidates[number] for number in lower])
    sure = [evidence.fresh.measured(gain).interval[0] > margin for gain in gains]
    better = tuple(names[others[number]] for number, surely in zip(lower, sure, strict=True) if surely)
    return ImposedRow(evidence.name(row), faithfulness, len(others), sum(other <= limit for other in losses), better)


def right_keys(rows: Sequence[ImposedRow]) -> Check:
    """Pass if, for each row, the claimed pattern keeps the circuit 90% faithful, no other key serves better, and at
    most half of the other keys serve as well."""
    wrong = [
        row.name
        for row in rows
        if row.faithfulness < _FAITHFUL or row.better or row.as_good > _INDIFFERENT * row.others
    ]
    says = f"each of {len(rows)} rows serves with its own key, and at most half of its other keys serve it as well"
    says = says if rows else "no row of the circuit has a path"
    if wrong:
        says = f"{len(wrong)} of {len(rows)} rows attend elsewhere, or other keys serve as well: {'; '.join(wrong)}"
    least = min((row.faithfulness for row in rows), default=0.0)
    numbers = {"wrong": float(len(wrong)), "least_faithfulness": least}
    return Check("right_keys", "passed" if rows and not wrong else "failed", says, numbers)
