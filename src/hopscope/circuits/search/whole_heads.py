"""The fewest heads found to suffice, each as a whole and with its own patterns, all others uniform or the identity.

They are found one after the other and not among all sets of heads: there may be fewer.
"""

from __future__ import annotations

import torch

from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.form import Form
from hopscope.circuits.evaluate.hypotheses import Draft
from hopscope.circuits.search.config import FREE, SearchConfig
from hopscope.circuits.search.gauge import Gauge
from hopscope.circuits.search.imposed import IDLE, HeadNumbers
from hopscope.circuits.search.jitter import jitter
from hopscope.circuits.search.units import Units

Off = dict[HeadNumbers, Form]
"""Heads that are off, and how."""


def whole_heads(evaluator: Evaluator, units: Units, config: SearchConfig, generator: torch.Generator | None) -> Draft:
    """Switch heads off, in the way that costs least, until the next one would exceed the threshold.

    Those that cost nothing go at once, then the least costly one by one; costs are measured again after each step.
    """
    gauge = Gauge.scanning(evaluator, config)
    heads = sorted({(row.layer, row.head) for row in units.rows})

    def program(off: Off) -> Draft:
        return {row: off.get((row.layer, row.head), form) for row, form in units.base.items()}

    off: Off = {}
    while True:
        moves = [{**off, head: form} for head in heads if head not in off for form in IDLE]
        gauge.rough.depart_from(program(off))
        now, *costs = gauge.rough.mse([program(off), *map(program, moves)])
        free = FREE * max(gauge.max_loss - now, 0.0)
        together = dict(off)
        for cost, move in sorted(zip(costs, moves, strict=True), key=lambda one: one[0]):
            if cost - now <= free:
                together = move | together
        factors = jitter(len(moves), generator)
        order = sorted(range(len(moves)), key=lambda n: (costs[n] - min(costs)) * factors[n])
        tried = [moves[number] for number in order[:2]]
        if len(together) > len(off):
            tried.insert(0, together)
        fitting = next((move for move in tried if gauge.passes(program(move), gauge.max_loss)), None)
        if fitting is None:
            return program(off)
        off = fitting
