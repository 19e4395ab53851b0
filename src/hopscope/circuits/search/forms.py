"""What each row in use does: the simplest hypothesis that is nearly as good as the best (Appendix E, step 3)."""

from __future__ import annotations

import torch

from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.form import KEEP, Form
from hopscope.circuits.hypotheses import Rows
from hopscope.circuits.search.budget import NEARLY_AS_GOOD, Budget
from hopscope.circuits.search.gauge import Gauge
from hopscope.circuits.search.units import Units
from hopscope.theory.path import Row


def simplest(evaluator: Evaluator, units: Units, budget: Budget, generator: torch.Generator | None) -> Rows:
    """Every row in use in its simplest form, as the first sequences see it, or, if that does not hold, as all do."""
    formed = in_forms(Gauge.scanning(evaluator, budget), units)
    gauge = Gauge.confirming(evaluator, budget)
    return formed if gauge.passes(formed, gauge.bar) else in_forms(gauge, units)


def in_forms(gauge: Gauge, units: Units) -> Rows:
    """Each row in use in the simplest form that is nearly as good as its best.

    From the first layer to the last, so that the rows above still make their own patterns out of what the form lets
    through. Rows for which no form holds the limit keep their own pattern; when all have been seen, these are tried
    once more.
    """
    program = units.base
    for _ in range(2):
        for row in units.on(program):
            if program[row] == KEEP:
                program = {**program, row: _form(gauge, units, program, row)}
    return program


def _form(gauge: Gauge, units: Units, program: Rows, row: Row) -> Form:
    """The first form that few sequences find nearly as good as the best one, if all of them do not refuse it."""
    # Hypotheses that amount to switching the row off are left out: it is in use because it could not be.
    forms = [form for form in units.hypotheses.of(row) if form != KEEP and not units.hypotheses.is_off(row, form)]
    near = [{**program, row: form} for form in forms]
    costs, _ = gauge.costs(program, near)
    current = gauge.score(program)
    most = max(gauge.limit(), current)
    good = min(most, current + max(min(costs, default=0.0), 0.0) + NEARLY_AS_GOOD * (most - current))
    gauge.evaluator.depart_from(program)
    passing = (n for n, cost in enumerate(costs) if current + cost <= good and gauge.score(near[n]) <= good)
    return next((forms[number] for number in passing), KEEP)
