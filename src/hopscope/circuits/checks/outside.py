"""Check `outside`: does the model do without everything that the circuit does not name?"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import torch

from hopscope.circuits.checks.card import Check
from hopscope.circuits.checks.evidence import Evidence
from hopscope.circuits.evaluate.ablations import CHOSEN, Interventions, knock_out
from hopscope.circuits.evaluate.bootstrap import Measured
from hopscope.problem.paths import AttentionPath, HeadRow


@dataclass(frozen=True)
class OutsideLosses:
    """Losses of the model without what carries nothing according to the circuit.

    Attributes:
        max_loss: the loss threshold.
        worst_half: without the worst of random halves of all other rows.
        halves: how many halves there were.
        other_keys: without the keys that active rows attend to and the circuit does not name; None if there are none.
        named: these keys, in words.
    """

    max_loss: float
    worst_half: Measured
    halves: int
    other_keys: Measured | None = None
    named: str = ""


def measure_outside(evidence: Evidence) -> OutsideLosses:
    """Ablate random halves of the other rows, each half and its rest; and the keys that the circuit does not name.

    Imposed patterns stay imposed: such a circuit does not claim what makes them.
    """
    generator, idle = evidence.random("outside"), list(evidence.carrying_nothing.items())
    imposed: Interventions = {}
    if evidence.patterns == "imposed":
        imposed = {row: evidence.imposed[row] for row in evidence.rows}
    candidates: list[Interventions] = []
    for _ in range(evidence.proof.halves // 2):
        order = torch.randperm(len(idle), generator=generator).tolist()
        candidates += [imposed | dict(idle[number] for number in order[start::2]) for start in (0, 1)]
    losses = evidence.screened(candidates, evidence.max_loss, imposed)
    worst = evidence.sure(candidates[max(range(len(losses)), key=losses.__getitem__)])
    chosen = [row for row in evidence.rows if evidence.imposed[row].kind in CHOSEN]
    attended = [AttentionPath(*row, key) for row in chosen for key in sorted(evidence.hypotheses.heavy(row))]
    others: dict[HeadRow, list[AttentionPath]] = defaultdict(list)
    for path in attended:
        if path not in evidence.paths:
            others[path.row].append(path)
    gone = {row: knock_out(*(path.key for path in paths)) for row, paths in others.items()}
    named = "; ".join(path.describe(evidence.evaluator.names) for paths in others.values() for path in paths)
    keys = evidence.sure(gone) if gone else None
    return OutsideLosses(evidence.max_loss, worst, len(candidates), keys, named)


def outside(losses: OutsideLosses) -> Check:
    """Passes if the interval of the model's loss ends below the threshold without the worst half, and without those
    keys: a row that attends to its key for some sequences, and elsewhere for the rest, is not what the circuit says."""
    judged = [losses.worst_half, *([losses.other_keys] if losses.other_keys else [])]
    worst = max(judged, key=lambda loss: loss.interval[1])
    says = f"the model without the worst of {losses.halves} random halves of the rest has {losses.worst_half.mean:.3f}"
    numbers = {"worst_half": losses.worst_half.mean}
    if losses.other_keys:
        says += f"; without {losses.named}, which the circuit does not name, {losses.other_keys.mean:.3f}"
        numbers["other_keys"] = losses.other_keys.mean
    passed = worst.interval[1] < losses.max_loss
    return Check("outside", "passed" if passed else "failed", says, numbers, worst.interval)
