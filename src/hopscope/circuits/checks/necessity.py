"""Check `necessity`: is all of the circuit needed? (Minimality, Wang et al. 2022.)"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from hopscope.circuits.checks.card import Check
from hopscope.circuits.checks.evidence import Evidence, Lost
from hopscope.circuits.evaluate.ablations import Interventions
from hopscope.statistics import Measured


def check_necessity(evidence: Evidence) -> Check:
    """Measure the circuit without each row, without each key, and with too many paths of each group removed.

    There are two ways to remove a key: the row attends to that role in other chains instead (if at least half of its
    queries see it there), or the key is knocked out (if the row may attend elsewhere too). The cheaper way counts.
    """
    grouped, names = {path.row for path in evidence.grouped}, evidence.evaluator.names
    parts = {evidence.name(row): lost for row, lost in evidence.lost.items() if row not in grouped}
    parts |= {path.describe(names): lost for path, lost in evidence.lost_keys.items() if path not in evidence.grouped}
    for chosen, lost in evidence.lost_groups.items():
        parts[" and ".join(path.describe(names) for path in chosen)] = lost
    return necessity(evidence.max_loss, parts, _best_pair(evidence))


def _best_pair(evidence: Evidence) -> tuple[str, Measured] | None:
    """Return the names of the two rows whose joint removal raises the loss least, and the loss without them."""
    rows = [row for row in evidence.rows if row not in {*evidence.exempt, *(path.row for path in evidence.grouped)}]
    pairs = [*combinations(rows, 2)]
    if evidence.proof.pairs is not None:
        missed = {row: lost.loss.mean for row, lost in evidence.lost.items()}
        pairs = sorted(pairs, key=lambda pair: missed[pair[0]] + missed[pair[1]])[: evidence.proof.pairs]
    candidates: list[Interventions] = [evidence.base | {row: evidence.off[row] for row in pair} for pair in pairs]
    losses = evidence.fresh.screened(candidates, evidence.max_loss)
    best = min(range(len(pairs)), key=losses.__getitem__, default=None)
    if best is None:
        return None
    return " and ".join(map(evidence.name, pairs[best])), evidence.fresh.sure(candidates[best])


def necessity(max_loss: float, parts: Mapping[str, Lost], pair: tuple[str, Measured] | None = None) -> Check:
    """Pass if every row, key and group is needed, and no two rows can be removed together.

    A part is needed if the interval of the loss without it lies above the threshold and the loss surely rises by more
    than `Lost.due`. Without this second condition, every part of a circuit just below the threshold would count as
    needed. Two rows can be removed together if the interval of the loss without `pair` ends below the threshold.
    """
    not_needed = [
        name for name, lost in parts.items() if lost.loss.interval[0] <= max_loss or lost.rise.interval[0] <= lost.due
    ]
    few = f"{len(not_needed)} of {len(parts)} parts"
    if pair and pair[1].interval[1] < max_loss:
        not_needed.append(pair[0])
        few = f"{few} and a pair of rows" if len(not_needed) > 1 else "a pair of rows"
    if not parts:
        return Check("necessity", "failed", "the circuit is empty")
    least = min((lost.loss for lost in parts.values()), key=lambda loss: loss.mean)
    says = f"without any one of its {len(parts)} rows and keys the loss is at least {least.mean:.3f}"
    if not_needed:
        says = f"{few} not surely needed: {'; '.join(not_needed)}"
    numbers = {"least": least.mean, "not_needed": float(len(not_needed))}
    if pair:
        numbers["best_pair"] = pair[1].mean
    return Check("necessity", "passed" if not not_needed else "failed", says, numbers, least.interval)
