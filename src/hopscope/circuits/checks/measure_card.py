"""Measure the card of a circuit: size, faithfulness, the curve over circuit size, baselines, tags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from hopscope.circuits.checks.card import Baselines, Card, Check, CheckName, Curve, Damage, Faithfulness, FoundBy, Size
from hopscope.circuits.checks.evidence import Evidence
from hopscope.circuits.evaluate.ablations import KEEP, RESAMPLE, UNIFORM, Interventions, changed
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.patching import highest_rise
from hopscope.circuits.evaluate.units import Units
from hopscope.circuits.search.gradients import row_scores
from hopscope.errors import InputError
from hopscope.problem.paths import HeadRow
from hopscope.statistics import tidy
from hopscope.theory.path_flow import strategy

_SIZES = 12
"""The number of steps of the curve between the circuit and the whole model."""

_BEST = 8
"""The number of random circuits that are measured on more sequences: those that are best on the first sequences."""

_TESTABLE = 20
"""The smallest number of random circuits with which the comparison is meaningful."""

_TRIES = 6
"""The number of draws per random circuit; if only few distinct circuits exist, this is enough to find nearly all."""

_MANY_ROWS = 512
"""ACDC's rule tries every row in turn, so it is left out in models with more rows than this."""

_THRESHOLDS = (16.0, 4.0, 1.0, 0.2, 0.05, 0.01, 0.002)
"""The thresholds that are tried for ACDC's rule, as shares of the loss threshold."""


def measure_card(evidence: Evidence, checks: Mapping[CheckName, Check]) -> Card:
    """Measure the card of a circuit; `checks` are the results of its checks."""
    numbers = checks["completeness"].numbers
    scores = evidence.fresh.few.once("attribution", partial(row_scores, evidence.fresh.few))
    by_score = sorted(evidence.evaluator.live_rows, key=lambda row: -float(scores[row.layer, row.head, row.query]))
    order = _falling(evidence)
    return Card(
        size=Size(len(evidence.paths), len(evidence.rows), len(evidence.at_mean), len(by_score)),
        own=_faithfulness(evidence, evidence.own),
        imposed=_faithfulness(evidence, evidence.imposed),
        order=tuple(map(evidence.name, order)),
        curve=_curve(evidence, order, by_score),
        completeness=Damage(**numbers) if numbers else Damage(0.0, 0.0, 0.0),
        baselines=_baselines(evidence, by_score),
        strategy=strategy(evidence.problem, evidence.paths),
        found_by=_found_by(evidence),
    )


def _faithful(evidence: Evidence, candidates: list[Interventions]) -> list[float]:
    return [*map(tidy, evidence.faithfulness(evidence.fresh.mean_losses(candidates)))]


def _faithfulness(evidence: Evidence, circuit: Interventions) -> Faithfulness:
    """Measure the faithfulness with all inactive rows ablated, in each of three ways, and its intervals."""
    outside = evidence.outside
    uniform, mean = dict.fromkeys(outside, UNIFORM), {row: evidence.units.mean(row) for row in outside}
    ways = [circuit | ablated for ablated in (uniform, mean, dict.fromkeys(outside, RESAMPLE))]
    nothing, full, *losses = evidence.fresh.resampled_losses([evidence.nothing, {}, *ways])
    gap = np.where(full < nothing, nothing - full, np.inf)  # as `Evidence.faithfulness`, which is 0 without a gap
    ends = np.quantile((nothing - np.stack(losses)) / gap, (0.025, 0.975), axis=1).T.tolist()
    first, second, third = ((tidy(low), tidy(high)) for low, high in ends)
    off, at_mean, resample = _faithful(evidence, ways)
    return Faithfulness(off, at_mean, resample, (first, second, third))


def _falling(evidence: Evidence) -> list[HeadRow]:
    """Return the active rows in the order of their removal; each step removes the row that raises the loss least."""
    left, circuit, order, most = list(evidence.rows), evidence.base, list[HeadRow](), evidence.proof.pairs
    if most is not None and len(left) * (len(left) - 1) // 2 > most:
        return sorted(left, key=lambda row: evidence.lost[row].loss.mean)
    while left:
        candidates = [circuit | {row: evidence.off[row]} for row in left]
        losses = evidence.fresh.losses(evidence.fresh.rough, candidates, circuit).mean(dim=1).tolist()
        least = losses.index(min(losses))
        order.append(left.pop(least))
        circuit = candidates[least]
    return order


def _curve(evidence: Evidence, order: list[HeadRow], by_score: list[HeadRow]) -> Curve:
    """Measure the curve: add the rows of the circuit in reverse `order`, and then the other rows by attribution."""
    sizes, rest = [*range(len(order) + 1)], [row for row in by_score if row not in order]
    candidates = [evidence.base | {row: evidence.off[row] for row in order[: len(order) - size]} for size in sizes]
    for more in sorted({round(len(rest) ** (point / _SIZES)) for point in range(_SIZES + 1)} if rest else set()):
        sizes.append(len(order) + more)
        candidates.append(evidence.own | dict.fromkeys(rest[:more], KEEP) if more < len(rest) else {})
    return Curve(tuple(zip(sizes, _faithful(evidence, candidates), strict=True)))


def _baselines(evidence: Evidence, by_score: list[HeadRow]) -> Baselines:
    """Measure other circuits with the same number of active rows, each with the model's own patterns."""
    off, drawn = evidence.base | evidence.off, _random_rows(evidence)
    rivals = [off | dict.fromkeys(rows, KEEP) for rows in drawn]
    losses = evidence.fresh.losses(evidence.fresh.rough, rivals, off).mean(dim=1).tolist()
    best = sorted(range(len(rivals)), key=losses.__getitem__)[:_BEST] if len(rivals) >= _TESTABLE else []
    random = max(_faithful(evidence, [rivals[number] for number in best]), default=None)
    taken = evidence.nothing | dict.fromkeys(by_score[: len(evidence.rows)], KEEP)
    acdc = _acdc(evidence) if len(by_score) <= _MANY_ROWS else None
    (attribution,) = _faithful(evidence, [taken])
    return Baselines(random, len(drawn), acdc, attribution, _untrained(evidence))


def _random_rows(evidence: Evidence) -> list[tuple[HeadRow, ...]]:
    """Draw distinct random circuits from rows that attend to some role, in heads that are not skipped."""
    own, silent, draws = tuple(sorted(evidence.rows)), evidence.evaluator.skipped, evidence.proof.draws
    rivals = (row for row in evidence.evaluator.live_rows if row[:2] not in silent and evidence.units.heavy(row))
    generator = evidence.fresh.random("circuits")
    pool, found = sorted({*own, *rivals}), dict[tuple[HeadRow, ...], None]()
    for _ in range(_TRIES * draws):
        drawn = torch.randperm(len(pool), generator=generator)[: len(own)].tolist()
        found[tuple(sorted(pool[number] for number in drawn))] = None
        if len(found) > draws:
            break
    return [rows for rows in found if rows != own][:draws]


def _acdc(evidence: Evidence) -> float:
    """Measure ACDC's rule with the smallest threshold that leaves at most as many rows as the circuit has."""
    live, found = evidence.evaluator.live_rows, evidence.nothing
    units = replace(evidence.units, rows=live, base=evidence.nothing | dict.fromkeys(live, KEEP))
    low, high = 0, len(_THRESHOLDS)
    while low < high:
        middle = (low + high) // 2
        threshold = _THRESHOLDS[middle] * evidence.max_loss
        left = evidence.fresh.rough.once(f"ACDC {threshold}", partial(swept, evidence.fresh.rough, units, threshold))
        if len(units.on(left)) <= len(evidence.rows):
            found, low = left, middle + 1
        else:
            high = middle
    return _faithful(evidence, [found])[0]


def swept(evaluator: Evaluator, units: Units, threshold: float) -> Interventions:
    """Return the interventions that remain of `units.base` under ACDC's rule (Conmy et al. 2023).

    Each row is tried once, from the last layer to the first, and removed if the loss rises by less than the threshold.
    """
    interventions = units.base
    (now,) = evaluator.mse([interventions])
    for row in sorted(units.on(interventions), reverse=True):
        evaluator.depart_from(interventions)
        without = changed(interventions, {row: UNIFORM})
        (loss,) = evaluator.mse([without])
        if loss - now < threshold:
            interventions, now = without, loss
    return interventions


def _untrained(evidence: Evidence) -> float | None:
    """Measure the circuit when its heads have their initial weights; None if the initial weights are not known."""
    seed = int(torch.randint(2**31, (), generator=evidence.fresh.random("untrained")))
    try:
        untrained = evidence.fresh.few.with_untrained(sorted({row[:2] for row in evidence.rows}), seed)
    except InputError:
        return None
    return tidy(*evidence.faithfulness(untrained.mse([evidence.base])))


def _found_by(evidence: Evidence) -> FoundBy:
    """Whether rows find their keys by content or by position; with imposed patterns, the whole model is measured."""
    own = evidence.patterns == "own"
    layers = {row.layer for row in evidence.rows} if own else range(evidence.evaluator.shape.layers)
    rise = highest_rise(evidence.fresh.few, evidence.own if own else {}, layers)
    return "not asked" if rise is None else "content" if rise < evidence.max_loss else "position"
