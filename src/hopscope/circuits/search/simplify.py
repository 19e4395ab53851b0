"""What each row in use does: the simplest hypothesis that is nearly as good as the best (Appendix E, step 3)."""

from __future__ import annotations

from hopscope.circuits.evaluate.ablations import ALIKE, KEEP, Ablation, AblationKind, Interventions
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.search.config import AMONG_OTHERS, CLEAR, NEARLY_AS_GOOD, SearchConfig
from hopscope.circuits.search.gauge import Gauge, Random
from hopscope.problem.paths import HeadRow


def simplest(evaluator: Evaluator, units: Units, config: SearchConfig, generator: Random) -> Interventions:
    """Every row in use in its simplest form, by the first sequences or, if its loss is too high then, by all."""
    formed = in_forms(Gauge.scanning(evaluator, config), units)
    gauge = Gauge.confirming(evaluator, config)
    return formed if gauge.passes(formed, gauge.max_loss) else in_forms(gauge, units)


def in_forms(gauge: Gauge, units: Units) -> Interventions:
    """Each row in use in the simplest form that is nearly as good as its best.

    Rows are gone through from the first layer to the last, so that those above still make their own patterns out of
    what the form lets through. Rows for which no form is within the limit keep their own pattern; when all have been
    seen, these are tried once more.
    """
    program, natural = units.base, units.natural(units.base)
    most = gauge.evaluator.mse([natural])[0] + AMONG_OTHERS * gauge.max_loss
    for _ in range(2):
        for row in units.on(program):
            if program[row] == KEEP:
                program = {**program, row: _form(gauge, units, program, row, natural, most)}
    return program


def _form(
    gauge: Gauge, units: Units, program: Interventions, row: HeadRow, natural: Interventions, among_others: float
) -> Ablation:
    """The first form that few sequences find nearly as good as the best one and all confirm; `KEEP` if there is none.

    Nor may the loss be above `among_others` with this form alone imposed, where the other rows make their own patterns:
    with all rows imposed, a form may suffice that is wrong whenever another row, left to itself, does something else.
    """
    forms = _hypotheses(units, row)
    near = [{**program, row: form} for form in forms]
    costs, _ = gauge.costs(program, near)
    current = gauge.score(program)
    most = max(gauge.limit(), current)
    good = min(most, current + max(min(costs, default=0.0), 0.0) + NEARLY_AS_GOOD * (most - current))
    gauge.evaluator.depart_from(program)
    passing = (n for n, cost in enumerate(costs) if current + cost <= good and gauge.score(near[n]) <= good)
    alone = (forms[n] for n in passing if gauge.evaluator.mse([{**natural, row: forms[n]}])[0] <= among_others)
    return next(alone, KEEP)


def _hypotheses(units: Units, row: HeadRow) -> list[Ablation]:
    """What the row could be doing: its hypotheses but `KEEP`.

    Those that amount to switching it off are left out: it is in use because it could not be. And if it looks mostly at
    one role, those of looking at another single role are left out too.
    """
    weights = units.hypotheses.weights(row)
    clear = {key for key, weight in enumerate(weights) if weight >= CLEAR and key != row.query}
    return [
        form
        for form in units.hypotheses.of(row)
        if form != KEEP
        and not units.hypotheses.is_off(row, form)
        and not (form.kind is AblationKind.ONE_HOT and clear and form.keys[0] not in clear)
    ]


def chain_agnostic(gauge: Gauge, units: Units, program: Interventions) -> Interventions:
    """Make active rows chain-agnostic, one at a time, the least costly first, while the loss allows it."""
    rows = [row for row in units.on(program) if units.hypotheses.keys(row, program[row])]
    near: list[Interventions] = [{**program, row: ALIKE} for row in rows]
    found = program
    for number in gauge.by_cost(program, near, gauge.max_loss):
        gauge.evaluator.depart_from(found)
        if gauge.passes({**found, rows[number]: ALIKE}, gauge.max_loss):
            found = {**found, rows[number]: ALIKE}
    return found
