"""Check `right_keys`: does each row attend to what the circuit says, and would no other key serve as well?"""

from __future__ import annotations

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
class KeyLosses:
    """A row with its pattern imposed, the rest of the circuit as it is.

    Attributes:
        name: the row.
        loss: the circuit's loss with the claimed pattern.
        faithfulness: its faithfulness then.
        others: how many other keys it may attend to.
        as_good: with how many of them the loss is no higher, or below the threshold.
        better: those with which the loss is surely lower, by a fifth of the threshold.
    """

    name: str
    loss: float
    faithfulness: float
    others: int
    as_good: int
    better: tuple[str, ...] = ()


def measure_right_keys(evidence: Evidence) -> tuple[KeyLosses, ...]:
    """Impose the claimed pattern on each row with a path alone, then point it at every other key it may attend to."""
    return tuple(_one_row(evidence, row) for row in evidence.rows if row not in evidence.helpers)


def _one_row(evidence: Evidence, row: HeadRow) -> KeyLosses:
    """Judge a row in the circuit without what would back it up if it attended elsewhere."""
    margin, visible, names = COUNTS * evidence.max_loss, evidence.evaluator.where.visible, evidence.evaluator.names
    claimed = {path.key for path in evidence.paths if path.row == row}
    others = [key for key in range(len(visible)) if key not in {*claimed, row.query} and visible[row.query, key]]
    around = evidence.around(row) | evidence.without_backups(row)
    candidates: list[Interventions] = [around | {row: one_hot(key)} for key in others]
    (own,) = evidence.losses(evidence.few, [around | {row: evidence.imposed[row]}])
    loss = float(own.mean())
    (faithfulness,) = evidence.faithfulness([loss], evidence.own if row in evidence.exempt else {})
    limit = max(loss, evidence.max_loss)
    losses = evidence.screened(candidates, limit)
    lower = [number for number, other in enumerate(losses) if other < loss - margin]
    gains = own - evidence.losses(evidence.few, [candidates[number] for number in lower])
    better = [
        names[others[n]] for n, gain in zip(lower, gains, strict=True) if evidence.measured(gain).interval[0] > margin
    ]
    as_good = sum(other <= limit for other in losses)
    return KeyLosses(evidence.name(row), loss, faithfulness, len(others), as_good, tuple(better))


def right_keys(rows: tuple[KeyLosses, ...]) -> Check:
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
