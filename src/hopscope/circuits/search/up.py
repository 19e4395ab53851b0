"""A way up: from nothing, rows are put back until the bar holds."""

from __future__ import annotations

from bisect import bisect_left

import torch

from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.hypotheses import Rows
from hopscope.circuits.search.budget import LAST, Budget
from hopscope.circuits.search.gauge import Gauge
from hopscope.circuits.search.units import Units
from hopscope.theory.path import Row


def grown(evaluator: Evaluator, units: Units, budget: Budget, generator: torch.Generator | None) -> Rows:
    """A small part of `units.base`, grown from nothing: its rows are put back in random order until the limit holds.

    The row that tips the balance is needed with those before it; it stays, and growth starts over with it. Where growth
    never gets there the base itself comes back.
    """
    gauge, rows = Gauge.scanning(evaluator, budget), units.on(units.base)
    limit = gauge.limit(LAST)
    order = range(len(rows)) if generator is None else torch.randperm(len(rows), generator=generator).tolist()
    shuffled, kept = [rows[number] for number in order], list[Row]()
    while True:
        rest = [row for row in shuffled if row not in kept]

        def holds(count: int) -> bool:
            return gauge.passes(units.only(units.base, kept + rest[:count]), limit)  # noqa: B023

        if holds(0):
            return units.only(units.base, kept)
        reached = bisect_left(range(1, len(rest)), True, key=holds) + 1
        if not rest or (reached == len(rest) and not holds(reached)):
            return units.base
        kept.append(rest[reached - 1])
        shuffled = [*kept, *rest[: reached - 1]]
