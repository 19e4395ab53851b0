"""Choose a pattern for each active row: the simplest one that is nearly as good as the best (Appendix E, step 3)."""

from __future__ import annotations

from hopscope.circuits.evaluate.ablations import ALIKE, KEEP, Ablation, AblationKind, Interventions
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.units import Units
from hopscope.circuits.search.config import AMONG_OTHERS, CLEAR, NEARLY_AS_GOOD, SearchConfig
from hopscope.circuits.search.gauge import Gauge
from hopscope.problem.paths import HeadRow


def simplest(evaluator: Evaluator, units: Units, config: SearchConfig) -> Interventions:
    """Give each active row its simplest pattern, chosen on the first sequences or, if the loss is too high, on all."""
    simple = simplest_patterns(Gauge.scanning(evaluator, config), units)
    gauge = Gauge.confirming(evaluator, config)
    return simple if gauge.passes(simple, gauge.max_loss) else simplest_patterns(gauge, units)


def simplest_patterns(gauge: Gauge, units: Units) -> Interventions:
    """Give each active row the simplest pattern that is nearly as good as its best pattern.

    Rows are tried from the first layer to the last, so that later layers still compute their own patterns from the
    output of the imposed ones. A row for which no pattern is good enough keeps its own and is tried once more.
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
    """Return the first pattern nearly as good as the best, on few and on all sequences of the gauge, or else `KEEP`.

    In addition, the loss must be at most `among_others` if only this pattern is imposed and all other rows make their
    own patterns. Otherwise, a pattern that works only as long as all other rows are imposed could pass.
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
    """Return the hypotheses about a row, without `KEEP` and without patterns that switch the row off.

    If the row attends mostly to one role, one-hot patterns on other roles are left out too.
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
    """Make active rows chain-agnostic, one at a time, the cheapest first, as long as the loss allows it."""
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
