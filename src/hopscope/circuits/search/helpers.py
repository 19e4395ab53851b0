"""Which rows in use need not tell their own chain from others? They help, and what they attend to there is no path.

In a trained model a head of the first layer often looks a little at the other member of its pair, beside another head
that ties the same pair: later layers count on what it writes, and not on that look.
"""

from __future__ import annotations

from hopscope.circuits.evaluate.form import ALIKE
from hopscope.circuits.evaluate.hypotheses import Draft
from hopscope.circuits.search.gauge import Gauge
from hopscope.circuits.search.units import Units


def told_alike(gauge: Gauge, units: Units, program: Draft) -> Draft:
    """Let rows in use look at all chains alike, one at a time, the least costly first, while the loss allows it."""
    rows = [row for row in units.on(program) if units.hypotheses.keys(row, program[row])]
    near: list[Draft] = [{**program, row: ALIKE} for row in rows]
    found = program
    for number in gauge.by_cost(program, near, gauge.max_loss):
        gauge.evaluator.depart_from(found)
        if gauge.passes({**found, rows[number]: ALIKE}, gauge.max_loss):
            found = {**found, rows[number]: ALIKE}
    return found
