"""What each active row does: the simplest hypothesis that is nearly as good as the best (Appendix E, step 3)."""

from __future__ import annotations

from hopscope.circuits.evaluate.ablations import ALIKE, KEEP, Ablation, AblationKind, Interventions
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.units import Units
from hopscope.circuits.search.config import AMONG_OTHERS, CLEAR, NEARLY_AS_GOOD, SearchConfig
from hopscope.circuits.search.gauge import Gauge
from hopscope.problem.paths import HeadRow


def simplest(evaluator: Evaluator, units: Units, config: SearchConfig) -> Interventions:
    """Every active row with its simplest pattern, by the first sequences or, if the loss is then too high, by all."""
    simple = simplest_patterns(Gauge.scanning(evaluator, config), units)
    gauge = Gauge.confirming(evaluator, config)
    return simple if gauge.passes(simple, gauge.max_loss) else simplest_patterns(gauge, units)


def simplest_patterns(gauge: Gauge, units: Units) -> Interventions:
    """Each active row with the simplest pattern that is nearly as good as its best.

    Rows are tried from the first layer to the last, so that those above still make their own patterns out of what the
    imposed one lets through. Rows without one within the limit keep their own pattern and are then tried once more.
    """
    interventions, own = units.base, units.own_patterns(units.base)
    most = gauge.evaluator.mse([own])[0] + AMONG_OTHERS * gauge.max_loss
    for _ in range(2):
        for row in units.on(interventions):
            if interventions[row] == KEEP:
                interventions = {**interventions, row: _pattern(gauge, units, interventions, row, own, most)}
    return interventions


def _pattern(
    gauge: Gauge, units: Units, interventions: Interventions, row: HeadRow, own: Interventions, among_others: float
) -> Ablation:
    """The first pattern that few sequences find nearly as good as the best one and all confirm; else `KEEP`.

    Nor may the loss be above `among_others` with it alone imposed, where the other rows make their own patterns: with
    all rows imposed, a pattern may suffice that is wrong whenever another row, left to itself, does something else.
    """
    patterns = _possible(units, row)
    near = [{**interventions, row: pattern} for pattern in patterns]
    costs, _ = gauge.costs(interventions, near)
    current = gauge.score(interventions)
    most = max(gauge.limit(), current)
    good = min(most, current + max(min(costs, default=0.0), 0.0) + NEARLY_AS_GOOD * (most - current))
    gauge.evaluator.depart_from(interventions)
    passing = (n for n, cost in enumerate(costs) if current + cost <= good and gauge.score(near[n]) <= good)
    alone = (patterns[n] for n in passing if gauge.evaluator.mse([{**own, row: patterns[n]}])[0] <= among_others)
    return next(alone, KEEP)


def _possible(units: Units, row: HeadRow) -> list[Ablation]:
    """What the row could be doing: its hypotheses but `KEEP` and those that amount to switching it off.

    If it attends mostly to one role, those of attending to another single role are left out too.
    """
    weights = units.weights(row)
    clear = {key for key, weight in enumerate(weights) if weight >= CLEAR and key != row.query}
    return [
        pattern
        for pattern in units.hypotheses(row)
        if pattern != KEEP
        and not units.is_off(row, pattern)
        and not (pattern.kind is AblationKind.ONE_HOT and clear and pattern.keys[0] not in clear)
    ]


def chain_agnostic(gauge: Gauge, units: Units, interventions: Interventions) -> Interventions:
    """Make active rows chain-agnostic, one at a time, the least costly first, while the loss allows it."""
    if units.off_is_alike:
        return interventions
    rows = [row for row in units.on(interventions) if units.keys(row, interventions[row])]
    near: list[Interventions] = [{**interventions, row: ALIKE} for row in rows]
    found = interventions
    for number in gauge.by_cost(interventions, near, gauge.max_loss):
        gauge.evaluator.depart_from(found)
        if gauge.passes({**found, rows[number]: ALIKE}, gauge.max_loss):
            found = {**found, rows[number]: ALIKE}
    return found
