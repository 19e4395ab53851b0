"""Measures the card of a circuit: size, faithfulness, the curve over circuit size, baselines, tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.checks.card import (
    Baselines,
    Card,
    Check,
    CheckName,
    Curve,
    Damage,
    Faithfulness,
    FoundBy,
    Size,
)
from hopscope.circuits.checks.delivery import strategy
from hopscope.circuits.checks.evidence import Evidence
from hopscope.circuits.checks.sampling import by_sequence
from hopscope.circuits.evaluate.ablations import KEEP, RESAMPLE, UNIFORM, Ablation, Interventions
from hopscope.circuits.evaluate.bootstrap import tidy
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.evaluate.interchange import highest_rise
from hopscope.circuits.search.baselines import swept
from hopscope.circuits.search.gradients import row_scores
from hopscope.errors import InputError
from hopscope.problem.paths import HeadRow

_SIZES = 12
"""How many points the curve has beyond the circuit, up to the whole model."""

_BEST = 8
"""So many random circuits, the best by the first sequences, are measured on more."""

_TESTABLE = 20
"""Fewer random circuits say nothing."""

_TRIES = 6
"""How many attempts are made for each random circuit asked for: where few distinct ones exist, all are soon found."""

_MANY_ROWS = 512
"""ACDC's rule tries every row in turn; in a model with more rows than this it is left out."""

_THRESHOLDS = (16.0, 8.0, 4.0, 2.0, 1.0, 0.4, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
"""Thresholds of ACDC's rule, as shares of the loss threshold."""


def measure_card(evidence: Evidence, checks: Mapping[CheckName, Check]) -> Card:
    """The card of a circuit whose checks were measured."""
    of_circuit, numbers = _OfCircuit(evidence), checks["completeness"].numbers
    own, imposed = (of_circuit.faithfulness(active) for active in (evidence.own, evidence.imposed))
    return Card(
        size=Size(len(evidence.paths), len(evidence.rows), len(evidence.at_mean), len(evidence.evaluator.live_rows)),
        own=own,
        imposed=imposed,
        order=tuple(map(evidence.name, of_circuit.order)),
        curve=of_circuit.curve(),
        completeness=Damage(**numbers) if numbers else Damage(0.0, 0.0, 0.0),
        baselines=of_circuit.baselines(),
        strategy=strategy(evidence.problem, evidence.paths),
        found_by=_found_by(evidence),
    )


class _OfCircuit:
    """What the numbers of a card share."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence, self._few = evidence, evidence.few

    def faithfulness(self, circuit: Interventions) -> Faithfulness:
        """Faithfulness with every row that is not active ablated in one of three ways."""
        evidence = self._evidence
        ways: list[Interventions] = [
            dict.fromkeys(evidence.outside, UNIFORM),
            {row: evidence.hypotheses.mean(row) for row in evidence.outside},
            dict.fromkeys(evidence.outside, RESAMPLE),
        ]
        return Faithfulness(*self._faithful([{**circuit, **outside} for outside in ways]))

    @cached_property
    def order(self) -> list[HeadRow]:
        """The active rows in the order in which they fall: each time the one without which the loss is lowest."""
        evidence, left, gone, order = self._evidence, list(self._evidence.rows), dict[HeadRow, Ablation](), []
        while left:
            evidence.rough.depart_from({**evidence.base, **gone})
            losses = evidence.rough.mse([{**evidence.base, **gone, row: evidence.off[row]} for row in left])
            order.append(left.pop(losses.index(min(losses))))
            gone[order[-1]] = evidence.off[order[-1]]
        return order

    @cached_property
    def _scores(self) -> Float[Tensor, "layer head role"]:
        return row_scores(self._few)

    def _by_score(self, rows: Sequence[HeadRow]) -> list[HeadRow]:
        """Rows by falling attribution."""
        return sorted(rows, key=lambda row: -float(self._scores[row.layer, row.head, row.query]))

    def curve(self) -> Curve:
        """From nothing to the circuit, as its rows fall; then to the model, other rows added by attribution."""
        evidence, order = self._evidence, self.order
        sizes, candidates = [*range(len(order) + 1)], list[Interventions]()
        for size in sizes:
            candidates.append({**evidence.base, **{row: evidence.off[row] for row in order[: len(order) - size]}})
        rest = self._by_score(evidence.outside)
        further = sorted({round(len(rest) ** (point / _SIZES)) for point in range(_SIZES + 1)} if rest else set())
        for count in further:
            sizes.append(len(order) + count)
            candidates.append({**evidence.own, **dict.fromkeys(rest[:count], KEEP)})
        return Curve(tuple(zip(sizes, self._faithful(candidates), strict=True)))

    def baselines(self) -> Baselines:
        """Other circuits with as many active rows, each with its own patterns."""
        evidence, size = self._evidence, len(self._evidence.rows)
        live = list(evidence.evaluator.live_rows)
        around: Interventions = {**evidence.base, **evidence.off}
        drawn = self._random_rows()
        rivals: list[Interventions] = [{**around, **dict.fromkeys(rows, KEEP)} for rows in drawn]
        evidence.rough.depart_from(around)
        rough = evidence.rough.mse(rivals)
        best = sorted(range(len(drawn)), key=rough.__getitem__)[:_BEST] if len(drawn) >= _TESTABLE else []
        random = max(self._faithful([rivals[number] for number in best]), default=None)
        taken = {**evidence.nothing, **dict.fromkeys(self._by_score(live)[:size], KEEP)}
        acdc = self._acdc(size) if len(live) <= _MANY_ROWS else None
        (attribution,) = self._faithful([taken])
        return Baselines(random, len(drawn), acdc, attribution, self._untrained())

    def _random_rows(self) -> list[tuple[HeadRow, ...]]:
        """Distinct random circuits of rows that attend to some role, in heads that write something."""
        evidence, own = self._evidence, tuple(sorted(self._evidence.rows))
        pool = sorted({*own, *(row for row in evidence.writing if evidence.hypotheses.heavy(row))})
        found: dict[tuple[HeadRow, ...], None] = {}
        generator = evidence.random("circuits")
        for _ in range(_TRIES * evidence.proof.draws):
            drawn = torch.randperm(len(pool), generator=generator)[: len(own)].tolist()
            found[tuple(sorted(pool[number] for number in drawn))] = None
            if len(found) > evidence.proof.draws:
                break
        return [rows for rows in found if rows != own][: evidence.proof.draws]

    def _acdc(self, size: int) -> float:
        """ACDC's rule, with the smallest threshold that leaves no more rows than the circuit has."""
        evidence, found = self._evidence, self._evidence.nothing
        units = Units(evidence.hypotheses, evidence.evaluator.live_rows, self._model)
        low, high = 0, len(_THRESHOLDS)
        while low < high:
            middle = (low + high) // 2
            left = swept(evidence.rough, units, _THRESHOLDS[middle] * evidence.max_loss)
            if len(units.on(left)) <= size:
                found, low = left, middle + 1
            else:
                high = middle
        return self._faithful([found])[0]

    @cached_property
    def _model(self) -> Interventions:
        return {**self._evidence.nothing, **dict.fromkeys(self._evidence.evaluator.live_rows, KEEP)}

    def _untrained(self) -> float | None:
        """The circuit, its heads with initial weights; None where these are not known."""
        evidence = self._evidence
        seed = int(torch.randint(2**31, (), generator=evidence.random("untrained")))
        try:
            untrained = self._few.with_untrained(sorted({row[:2] for row in evidence.rows}), seed)
        except InputError:
            return None
        return tidy(evidence.levels.faithfulness(float(by_sequence(untrained, [evidence.base]).mean())))

    def _faithful(self, candidates: list[Interventions]) -> list[float]:
        """The faithfulness of candidates on few sequences."""
        self._few.depart_from(self._evidence.base)
        return [tidy(self._evidence.levels.faithfulness(loss)) for loss in self._few.mse(candidates)]


def _found_by(evidence: Evidence) -> FoundBy:
    """Whether rows are found by their content (`evaluate.interchange`); patterns imposed by role show nothing of it."""
    program = evidence.own if evidence.patterns == "own" else {}
    layers = sorted({row.layer for row in evidence.rows}) if program else None
    rise = highest_rise(evidence.few, program, layers)
    return "not asked" if rise is None else "content" if rise < evidence.max_loss else "position"
