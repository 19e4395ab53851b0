"""Check `right_keys`: does each row attend to what the circuit says, and would no other key serve as well?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hopscope.circuits.checks.card import Check
from hopscope.circuits.checks.evidence import COUNTS, Evidence
from hopscope.circuits.evaluate.ablations import Interventions, one_hot
from hopscope.problem.paths import HeadRow

_FAITHFUL = 0.9
"""How faithful the circuit must be with one row's pattern imposed."""

_INDIFFERENT = 0.5
"""The share of a row's other keys that may serve as well: some hold the same symbol."""


@dataclass(frozen=True)
class ImposedRow:
    """A row with its pattern imposed, the rest of the circuit as it is.

    Attributes:
        name: the row.
        faithfulness: the circuit's faithfulness with the claimed pattern.
        others: how many other keys it may attend to.
        as_good: with how many of them the loss is no higher, or below the threshold.
        better: those with which the loss is surely lower, by a fifth of the threshold.
    """

    name: str
    faithfulness: float
    others: int
    as_good: int
    better: tuple[str, ...] = ()


def check_right_keys(evidence: Evidence) -> Check:
    """Impose the claimed pattern on each row with a path alone, then point it at every other key it may attend to."""
    return right_keys([_imposed(evidence, row) for row in evidence.rows if row not in evidence.helpers])


def _imposed(evidence: Evidence, row: HeadRow) -> ImposedRow:
    """Judge a row in the circuit without what would back it up if it attended elsewhere."""
    visible, names = evidence.evaluator.where.visible, evidence.evaluator.names
    claimed = {path.key for path in evidence.paths if path.row == row}
    others = [key for key in range(len(visible)) if key not in {*claimed, row.query} and visible[row.query, key]]
    around = evidence.around(row) | evidence.without_backups(row)
    candidates: list[Interventions] = [around | {row: one_hot(key)} for key in others]
    (own,) = evidence.losses(evidence.few, [around | {row: evidence.imposed[row]}])
    loss, margin = float(own.mean()), COUNTS * evidence.max_loss
    (faithfulness,) = evidence.faithfulness([loss], evidence.own if row in evidence.exempt else {})
    limit = max(loss, evidence.max_loss)
    losses = evidence.screened(candidates, limit)
    lower = [number for number, other in enumerate(losses) if other < loss - margin]
    gains = own - evidence.losses(evidence.few, [candidates[number] for number in lower])
    sure = [evidence.measured(gain).interval[0] > margin for gain in gains]
    better = tuple(names[others[number]] for number, surely in zip(lower, sure, strict=True) if surely)
    return ImposedRow(evidence.name(row), faithfulness, len(others), sum(other <= limit for other in losses), better)


def right_keys(rows: Sequence[ImposedRow]) -> Check:
    """Passes if with each row's claimed pattern the circuit stays 90% faithful, no other key serves better, and at most
    half of the others serve as well."""
    wrong = [
        row.name
        for row in rows
        if row.faithfulness < _FAITHFUL or row.better or row.as_good > _INDIFFERENT * row.others
    ]
    says = f"each of {len(rows)} rows serves with its own key, and no other key serves it as well"
    if wrong:
        says = f"attend elsewhere, or might as well: {'; '.join(wrong)}"
    least = min((row.faithfulness for row in rows), default=0.0)
    numbers = {"wrong": float(len(wrong)), "least_faithfulness": least}
    return Check("right_keys", "passed" if rows and not wrong else "failed", says, numbers)
