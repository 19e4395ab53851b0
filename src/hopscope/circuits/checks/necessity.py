"""Check `necessity`: is all of the circuit needed? (Minimality, Wang et al. 2022.)"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from hopscope.circuits.checks.card import Check
from hopscope.circuits.checks.evidence import Evidence, Lost
from hopscope.circuits.evaluate.ablations import Interventions
from hopscope.statistics import Measured


def check_necessity(evidence: Evidence) -> Check:
    """Measure the circuit with each row switched off, each key taken from its row, and too many of each group gone.

    A key is removed if its row attends to that role of other chains instead, provided that half of its queries see
    it there; or, where the row attends elsewhere too, if the key is knocked out. What costs least counts.
    """
    grouped, names = {path.row for path in evidence.grouped}, evidence.evaluator.names
    parts = {evidence.name(row): lost for row, lost in evidence.lost.items() if row not in grouped}
    parts |= {path.describe(names): lost for path, lost in evidence.lost_keys.items() if path not in evidence.grouped}
    for chosen, lost in evidence.lost_groups.items():
        parts[" and ".join(path.describe(names) for path in chosen)] = lost
    return necessity(evidence.max_loss, parts, _best_pair(evidence))


def _best_pair(evidence: Evidence) -> tuple[str, Measured] | None:
    """The two rows without which the circuit's loss is lowest: two that cancel each other may go together."""
    rows = [row for row in evidence.rows if row not in {*evidence.exempt, *(path.row for path in evidence.grouped)}]
    pairs = [*combinations(rows, 2)]
    if evidence.proof.pairs is not None:
        missed = {row: lost.loss.mean for row, lost in evidence.lost.items()}
        pairs = sorted(pairs, key=lambda pair: missed[pair[0]] + missed[pair[1]])[: evidence.proof.pairs]
    candidates: list[Interventions] = [evidence.base | {row: evidence.off[row] for row in pair} for pair in pairs]
    losses = evidence.screened(candidates, evidence.max_loss)
    best = min(range(len(pairs)), key=losses.__getitem__, default=None)
    if best is None:
        return None
    return " and ".join(map(evidence.name, pairs[best])), evidence.sure(candidates[best])


def necessity(max_loss: float, parts: Mapping[str, Lost], pair: tuple[str, Measured] | None = None) -> Check:
    """Passes if without any one row, key or group the interval of the loss lies above the threshold, and it surely
    rises by what is due: in a circuit just below the threshold, anything would be needed otherwise.

    And no two rows can go together: the interval of the loss without the best `pair` must not end below the threshold.
    """
    not_needed = [
        name for name, lost in parts.items() if lost.loss.interval[0] <= max_loss or lost.rise.interval[0] <= lost.due
    ]
    if pair and pair[1].interval[1] < max_loss:
        not_needed.append(pair[0])
    if not parts:
        return Check("necessity", "failed", "the circuit is empty")
    least = min((lost.loss for lost in parts.values()), key=lambda loss: loss.mean)
    says = f"without any one of its {len(parts)} rows and keys the loss is at least {least.mean:.3f}"
    if not_needed:
        says = f"not surely needed: {'; '.join(not_needed)}"
    numbers = {"least": least.mean, "not_needed": float(len(not_needed))}
    if pair:
        numbers["best_pair"] = pair[1].mean
    return Check("necessity", "passed" if not not_needed else "failed", says, numbers, least.interval)
