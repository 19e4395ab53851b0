"""A negative control on the weights: with its weights untrained, a head must not do what the circuit's head does."""

from __future__ import annotations

from functools import partial

import torch

from hopscope.circuits.checks.certificate import Part, tidy
from hopscope.circuits.checks.evidence import COUNTS, Evidence
from hopscope.circuits.checks.sampling import Lost, by_sequence
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.errors import InputError
from hopscope.problem.paths import HeadRow


def untrained(evidence: Evidence) -> Part:
    """The circuit in the same model with one of its heads untrained, head by head, and with all of them untrained.

    A head's query, key, value and output weights are drawn as before training: what they had learned was needed or was
    not. In the natural sense all rows in use make their own patterns; in the strict sense patterns are imposed, save
    for heads of `exempt` rows untrained alone. Passes if each time the loss lies above the bar for sure, and above the
    circuit's own by a fifth of the bar. Where no head can be untrained nobody knows, and it does not pass.
    """
    of_head = {(row.layer, row.head): row for row in evidence.rows}
    heads = sorted(of_head)
    some: list[tuple[list[tuple[int, int]], HeadRow | None]] = [([head], of_head[head]) for head in heads] + [
        (heads, None)
    ]
    seed = int(torch.randint(2**31, (), generator=evidence.random("untrained")))
    try:
        measures = [partial(_untrained, evidence, chosen, row, seed) for chosen, row in some]
        lost = evidence.all_until_clear(measures, evidence.open, evidence.spare)
    except InputError as error:
        return Part(False, str(error), {})
    measured = evidence.measured([one.without for one in lost])
    rises = evidence.measured([one.rise for one in lost])
    needed = [
        one.interval[0] > evidence.bar and rise.interval[0] > COUNTS * evidence.bar
        for one, rise in zip(measured, rises, strict=True)
    ]
    *alone, together = [one.mean for one in measured]
    says = (
        f"with any of its {len(heads)} heads untrained the circuit has a loss of at least {min(alone, default=0):.3f}"
    )
    says += f", with all of them {together:.2f}"
    if not all(needed):
        least = min(
            (number for number, need in enumerate(needed) if not need), key=lambda number: measured[number].mean
        )
        named = "; ".join(f"layer {layer + 1} head {head + 1}" for layer, head in some[least][0])
        says = f"with untrained weights in {named or 'no head'} the circuit is as good"
    rows = [
        {"head": [layer + 1, head + 1], "mse": tidy(loss)} for (layer, head), loss in zip(heads, alone, strict=True)
    ]
    return Part(all(needed), says, {"heads": rows, "all_mse": tidy(together)})


def _untrained(
    evidence: Evidence, chosen: list[tuple[int, int]], row: HeadRow | None, seed: int, evaluator: Evaluator
) -> Lost:
    """The losses with heads untrained; `row` is one of theirs, or None."""
    (without,) = by_sequence(evaluator.with_untrained(chosen, seed), [evidence.around(row)])
    return Lost(without, evidence.own(evaluator, row), COUNTS * evidence.bar)
