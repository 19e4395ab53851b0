"""A negative control on the weights: an untrained head must not do what a head of the circuit does."""

from __future__ import annotations

import torch

from hopscope.circuits.certificate.evidence import COUNTS, Evidence, Lost, by_sequence
from hopscope.circuits.certificate.part import Part, tidy
from hopscope.circuits.hypotheses import Rows


def untrained(evidence: Evidence) -> Part:
    """The circuit in the same model with one of its heads untrained, head by head, and with all of them untrained.

    Nothing is imposed on patterns here: the head's queries, keys, values and output get initial weights, and what was
    in them was needed or was not. Passes if each time the loss lies above the bar for sure, and a fifth of it above the
    circuit's own.
    """
    heads = sorted({(row.layer, row.head) for row in evidence.rows})
    exempt = [[(row.layer, row.head)] for row in evidence.exempt]
    some = [[head] for head in heads] + [heads]
    seed = int(torch.randint(2**31, (), generator=evidence.random("untrained")))
    programs = [evidence.natural if chosen in exempt else evidence.base for chosen in some]
    lost = [_untrained(evidence, chosen, program, seed) for chosen, program in zip(some, programs, strict=True)]
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
        named = "; ".join(f"layer {layer + 1} head {head + 1}" for layer, head in some[needed.index(False)])
        says = f"with untrained weights in {named or 'no head'} the circuit is as good"
    rows = [
        {"head": [layer + 1, head + 1], "mse": tidy(loss)} for (layer, head), loss in zip(heads, alone, strict=True)
    ]
    return Part(all(needed), says, {"heads": rows, "all_mse": tidy(together)})


def _untrained(evidence: Evidence, chosen: list[tuple[int, int]], program: Rows, seed: int) -> Lost:
    """What heads do, on as many sequences as it takes to see whether it counts."""
    for evaluator in (evidence.few, evidence.evaluator, evidence.more):
        (without,) = by_sequence(evaluator.with_untrained(chosen, seed), [program])
        (own,) = by_sequence(evaluator, [program])
        lost = Lost(without, own)
        if not (evidence.in_doubt([without]) or evidence.in_doubt([lost.rise], COUNTS * evidence.bar)):
            break
    return lost
