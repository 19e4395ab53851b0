"""Check `completeness`: does the model need the circuit's parts, or does something else step in? (Wang et al. 2022)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.checks.card import Check
from hopscope.circuits.checks.evidence import COUNTS, Evidence
from hopscope.circuits.evaluate.ablations import Interventions, knock_out
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.words import counted

_WHOLE, _EACH = 0.5, 0.25
"""The required damage to the model as a share of the damage to the circuit: in total and for each part that matters."""


@dataclass(frozen=True)
class Rises:
    """How much the loss of the model and the loss of the circuit rise when a part of the circuit is removed.

    `enough` says whether the model's rise is surely at least a quarter of the circuit's rise.
    """

    model: float
    circuit: float
    enough: bool = True


def check_completeness(evidence: Evidence) -> Check:
    """Knock rows, groups, keys and random sets of rows out of the model and of the circuit, and compare the damage."""
    names, grouped, rows, keys = evidence.evaluator.names, {path.row for path in evidence.grouped}, {}, {}
    for row in evidence.rows:
        if row not in grouped:
            rows[evidence.name(row)] = _rises(evidence, {row: evidence.off[row]}, {row: evidence.off[row]})
    for group in evidence.groups:
        gone = evidence.together_off(group.paths)
        rows[" and ".join(path.describe(names) for path in group.paths)] = _rises(evidence, gone, gone)
    for path in evidence.paths:
        if path not in evidence.grouped:
            gone = {path.row: evidence.unclaimed(path)}
            keys[path.describe(names)] = _rises(evidence, {path.row: knock_out(path.key)}, gone)
    check = completeness(evidence.max_loss, rows, keys, _sets(evidence))
    (loss,) = evidence.fresh.mean_losses([{row: evidence.off[row] for row in evidence.rows}])
    return replace(check, says=f"{check.says}; without all rows of the circuit, the model has a loss of {loss:.3f}")


def _sets(evidence: Evidence) -> list[Rises]:
    """Return the rises when random sets of active rows are removed, measured on few sequences."""
    generator, sets = evidence.fresh.random("completeness"), list[Interventions]()
    for _ in range(evidence.proof.halves // 4):
        chosen = (torch.rand(len(evidence.rows), generator=generator) < 0.5).tolist()
        sets.append({row: evidence.off[row] for row, out in zip(evidence.rows, chosen, strict=True) if out})
    model, *in_model = evidence.fresh.mean_losses([{}, *sets])
    circuit, *in_circuit = evidence.fresh.mean_losses([evidence.base | gone for gone in [{}, *sets]])
    return [Rises(one - model, other - circuit) for one, other in zip(in_model, in_circuit, strict=True)]


def _rises(evidence: Evidence, in_model: Interventions, in_circuit: Interventions) -> Rises:
    """Measure the rises of both losses, on enough sequences to tell whether the model's rise is large enough."""
    around = evidence.around(next(iter(in_circuit)))

    def rises(evaluator: Evaluator) -> Float[Tensor, "of sequence"]:
        gone = evidence.fresh.losses(evaluator, [in_model, around | in_circuit])
        return gone - evidence.fresh.losses(evaluator, [{}, around])

    def doubtful(rises: Float[Tensor, "of sequence"]) -> bool:
        return evidence.fresh.in_doubt(rises[0] - _EACH * rises[1], 0.0)

    found = evidence.fresh.until_clear(rises, doubtful)
    model, circuit = found.mean(dim=1).tolist()
    return Rises(model, circuit, model > _EACH * circuit and not doubtful(found))


def completeness(
    max_loss: float, rows: Mapping[str, Rises], keys: Mapping[str, Rises], sets: Sequence[Rises] = ()
) -> Check:
    """Pass if the model's loss rises enough when parts of the circuit are removed; if not, other rows can replace them.

    Over all `rows` and `sets` together, the model's loss must rise by at least half as much as the circuit's loss. If
    the circuit's loss rises by over a fifth of the threshold without one of the `rows` or `keys`, the model's loss must
    surely rise by at least a quarter of that rise. `rows` has the rises for each row or redundant group, `keys` for
    each single key, and `sets` for random sets of rows.
    """
    felt = [{name: rise for name, rise in of.items() if rise.circuit > COUNTS * max_loss} for of in (rows, keys)]
    both, short = [*rows.values(), *sets], [name for of in felt for name, rise in of.items() if not rise.enough]
    damage = sum(rise.circuit for rise in both) if any(felt) else 0.0
    whole = sum(rise.model for rise in both) / damage if damage > 0 else 0.0
    worst = [min((rise.model / rise.circuit for rise in of.values()), default=0.0) for of in felt]
    says = f"knocked out of the model, parts of the circuit do {whole:.0%} of the damage that they do in the circuit"
    if damage <= 0:
        says = "no part of the circuit does clear damage when it is removed from the circuit"
    if short:
        says += f"; something else steps in for {counted(len(short), 'part')}: {'; '.join(short)}"
    passed = whole >= _WHOLE and not short
    numbers = {"whole": whole, "worst_row": worst[0], "worst_key": worst[1]}
    return Check("completeness", "passed" if passed else "failed", says, numbers)
