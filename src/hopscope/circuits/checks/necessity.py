"""Check `necessity`: is all of the circuit needed? (Minimality, Wang et al. 2022.)"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from hopscope.circuits.checks.card import Check
from hopscope.circuits.checks.evidence import Evidence, Lost
from hopscope.circuits.evaluate.ablations import Interventions
from hopscope.circuits.evaluate.bootstrap import Measured
from hopscope.problem.paths import HeadRow


@dataclass(frozen=True)
class Without:
    """The circuit's loss without something: how high it is, how much it rises, and how much it must rise at least."""

    name: str
    loss: Measured
    rise: Measured
    due: float


@dataclass(frozen=True)
class NecessityLosses:
    """Losses of the circuit without parts of it.

    Attributes:
        max_loss: the loss threshold.
        parts: without each row and key, and without too many paths of each group.
        best_pair: without both of the two rows that are missed least; None where there are no two rows.
    """

    max_loss: float
    parts: tuple[Without, ...]
    best_pair: Without | None = None


def measure_necessity(evidence: Evidence) -> NecessityLosses:
    """Measure the circuit with each row switched off, each key taken from its row, and each group gone.

    A key is removed if its row attends to that role of other chains instead, provided that half of its queries see
    it there; or, where the row attends elsewhere too, if the key is knocked out. What costs least counts.
    """
    grouped, names = {path.row for path in evidence.grouped}, evidence.evaluator.names
    lost = [(evidence.name(row), one) for row, one in evidence.lost.items() if row not in grouped]
    lost += [(path.describe(names), one) for path, one in evidence.lost_keys.items() if path not in evidence.grouped]
    for chosen, one in evidence.lost_groups.items():
        lost.append((" and ".join(path.describe(names) for path in chosen), one))
    parts = tuple(_without(evidence, name, one) for name, one in lost)
    free = [row for row in evidence.rows if row not in grouped and row not in evidence.exempt]
    return NecessityLosses(evidence.max_loss, parts, _best_pair(evidence, [*combinations(free, 2)]))


def _without(evidence: Evidence, name: str, lost: Lost) -> Without:
    return Without(name, evidence.measured(lost.without), evidence.measured(lost.rise), lost.due)


def _best_pair(evidence: Evidence, pairs: list[tuple[HeadRow, HeadRow]]) -> Without | None:
    """The pair of rows without which the circuit's loss is lowest: two that cancel each other may go together."""
    if not pairs:
        return None
    candidates: list[Interventions] = [evidence.base | {row: evidence.off[row] for row in pair} for pair in pairs]
    losses = evidence.screened(candidates, evidence.max_loss)
    best = min(range(len(pairs)), key=losses.__getitem__)
    loss = evidence.sure(candidates[best])
    return Without(" and ".join(map(evidence.name, pairs[best])), loss, loss, 0.0)


def necessity(losses: NecessityLosses) -> Check:
    """Passes if without any one row, key or group the interval of the loss lies above the threshold, and it surely
    rises by a fifth of it: in a circuit just below the threshold, anything would be needed otherwise.

    And no two rows can go together: the interval of the loss without both must not end below the threshold.
    """
    limit = losses.max_loss
    not_needed = [
        part.name for part in losses.parts if part.loss.interval[0] <= limit or part.rise.interval[0] <= part.due
    ]
    if losses.best_pair and losses.best_pair.loss.interval[1] < limit:
        not_needed.append(losses.best_pair.name)
    least = min(losses.parts, key=lambda part: part.loss.mean, default=None)
    if least is None:
        return Check("necessity", "failed", "the circuit is empty")
    says = f"without any one of its {len(losses.parts)} rows and keys the loss is at least {least.loss.mean:.3f}"
    if not_needed:
        says = f"not surely needed: {'; '.join(not_needed)}"
    numbers = {"least": least.loss.mean, "not_needed": float(len(not_needed))}
    if losses.best_pair:
        numbers["best_pair"] = losses.best_pair.loss.mean
    return Check("necessity", "failed" if not_needed else "passed", says, numbers, least.loss.interval)
