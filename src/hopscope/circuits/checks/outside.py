"""Check `outside`: can the model do without everything that the circuit does not name?"""

from __future__ import annotations

from collections import defaultdict

import torch

from hopscope.circuits.checks.card import Check
from hopscope.circuits.checks.evidence import Evidence
from hopscope.circuits.evaluate.ablations import CHOSEN, Interventions, knock_out
from hopscope.problem.paths import AttentionPath, HeadRow
from hopscope.statistics import Measured


def check_outside(evidence: Evidence) -> Check:
    """Ablate random halves of the other rows, and then the keys of active rows that the circuit does not name.

    For each random half, the complementary half is ablated separately. Imposed patterns stay in place meanwhile, since
    an imposed circuit does not claim which rows make its patterns.
    """
    generator, idle = evidence.fresh.random("outside"), list(evidence.carrying_nothing.items())
    imposed = evidence.patterns == "imposed"
    around: Interventions = {row: evidence.imposed[row] for row in evidence.rows} if imposed else {}
    halves: list[Interventions] = []
    for _ in range(evidence.proof.halves // 2):
        order = torch.randperm(len(idle), generator=generator).tolist()
        halves += [around | dict(idle[number] for number in order[start::2]) for start in (0, 1)]
    losses = evidence.fresh.screened(halves, evidence.max_loss, around)
    worst = evidence.fresh.sure(halves[losses.index(max(losses))])
    unnamed: dict[HeadRow, list[AttentionPath]] = defaultdict(list)
    for row in evidence.rows:
        for key in sorted(evidence.units.heavy(row)) if evidence.imposed[row].kind in CHOSEN else ():
            if (path := AttentionPath(*row, key)) not in evidence.paths:
                unnamed[row].append(path)
    named = "; ".join(path.describe(evidence.evaluator.names) for paths in unnamed.values() for path in paths)
    gone = {row: knock_out(*(path.key for path in paths)) for row, paths in unnamed.items()}
    return outside(evidence.max_loss, worst, len(halves), (named, evidence.fresh.sure(gone)) if gone else None)


def outside(max_loss: float, half: Measured, halves: int, keys: tuple[str, Measured] | None = None) -> Check:
    """Pass if the intervals of the model's loss without the worst half, and without `keys`, end below the threshold.

    `keys` describes the keys that active rows attend to but the circuit does not name, and has the loss without them.
    Such keys count because a row that attends to its named key in only some sequences is not what the circuit claims.
    """
    says = f"the model without the worst of {halves} random halves of the rest has {half.mean:.3f}"
    numbers, worst = {"worst_half": half.mean}, half
    if keys:
        says += f"; without {keys[0]}, which the circuit does not name, {keys[1].mean:.3f}"
        numbers["other_keys"] = keys[1].mean
        worst = max(half, keys[1], key=lambda loss: loss.interval[1])
    return Check("outside", "passed" if worst.interval[1] < max_loss else "failed", says, numbers, worst.interval)
