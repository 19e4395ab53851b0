"""Check `completeness`: does the model need the circuit, or does something else step in? (Wang et al. 2022.)"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.checks.card import Check, Damage
from hopscope.circuits.checks.evidence import COUNTS, Evidence
from hopscope.circuits.evaluate.ablations import Interventions, knock_out
from hopscope.circuits.evaluate.evaluator import Evaluator

_WHOLE, _EACH = 0.5, 0.25
"""The share of the damage in the circuit that the model must suffer: in all, and from each part that does some."""


@dataclass(frozen=True)
class Rises:
    """How much the loss rises without something, in the model and in the circuit.

    `enough` says whether the model's rise is surely a quarter of the circuit's.
    """

    model: float
    circuit: float
    enough: bool = True


@dataclass(frozen=True)
class CompletenessLosses:
    """What is lost where the same is knocked out of the model and of the circuit.

    Attributes:
        max_loss: the loss threshold.
        rows: without each row, or group of redundant ones.
        keys: without each key.
        sets: without random sets of rows.
    """

    max_loss: float
    rows: Mapping[str, Rises]
    keys: Mapping[str, Rises]
    sets: tuple[Rises, ...] = ()

    @property
    def damage(self) -> Damage:
        """The model's rise as a share of the circuit's: in all, and at the worst row and key that do some damage."""
        both = [*self.rows.values(), *self.sets]
        whole = sum(rise.model for rise in both) / max(sum(rise.circuit for rise in both), 1e-12)
        worst = (
            min((rise.model / rise.circuit for rise in self._felt(of)), default=0.0) for of in (self.rows, self.keys)
        )
        return Damage(whole, *worst)

    def _felt(self, rises: Mapping[str, Rises]) -> list[Rises]:
        return [rise for rise in rises.values() if rise.circuit > COUNTS * self.max_loss]


def measure_completeness(evidence: Evidence) -> CompletenessLosses:
    """Knock rows, groups, keys and random sets of rows out of the model and out of the circuit."""
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
    return CompletenessLosses(evidence.max_loss, rows, keys, tuple(_sets(evidence)))


def _sets(evidence: Evidence) -> list[Rises]:
    """The rises without random sets of rows, on few sequences."""
    generator, sets = evidence.random("completeness"), list[Interventions]()
    for _ in range(evidence.proof.halves // 4):
        chosen = (torch.rand(len(evidence.rows), generator=generator) < 0.5).tolist()
        sets.append({row: evidence.off[row] for row, out in zip(evidence.rows, chosen, strict=True) if out})
    in_model, in_circuit = (
        evidence.mean_losses([around | gone for gone in sets if gone]) for around in ({}, evidence.base)
    )
    model, circuit = evidence.mean_losses([{}, evidence.base])
    return [Rises(one - model, other - circuit) for one, other in zip(in_model, in_circuit, strict=True)]


def _rises(evidence: Evidence, in_model: Interventions, in_circuit: Interventions) -> Rises:
    """What is lost, on as many sequences as it takes to see whether the model feels it."""
    around = evidence.around(next(iter(in_circuit)))

    def rises(evaluator: Evaluator) -> Float[Tensor, "of sequence"]:
        gone = evidence.losses(evaluator, [in_model, around | in_circuit])
        return gone - evidence.losses(evaluator, [{}, around])

    def beyond(rises: Float[Tensor, "of sequence"]) -> Float[Tensor, " sequence"]:
        return rises[0] - _EACH * rises[1]

    def doubtful(rises: Float[Tensor, "of sequence"]) -> bool:
        return evidence.in_doubt(beyond(rises), 0.0)

    found = evidence.until_clear(rises, doubtful)
    model, circuit = found.mean(dim=1).tolist()
    return Rises(model, circuit, float(beyond(found).mean()) > 0 and not doubtful(found))


def completeness(losses: CompletenessLosses) -> Check:
    """Passes if in all the model suffers at least half of the damage, and surely a quarter of it from each row, group
    and key that does some damage in the circuit; less means that something outside steps in."""
    felt = {
        name: rise
        for name, rise in (*losses.rows.items(), *losses.keys.items())
        if rise.circuit > COUNTS * losses.max_loss
    }
    short, damage = [name for name, rise in felt.items() if not rise.enough], losses.damage
    says = f"knocked out of the model, the circuit does {damage.whole:.0%} of the damage that it does in itself"
    if short:
        says += f"; something else steps in for {'; '.join(short)}"
    passed = bool(felt) and damage.whole >= _WHOLE and not short
    numbers = {"whole": damage.whole, "worst_row": damage.worst_row, "worst_key": damage.worst_key}
    return Check("completeness", "passed" if passed else "failed", says, numbers)
