"""A baseline: rows ranked by gradients alone, as in edge attribution patching (Syed et al. 2023; Hanna et al. 2024)."""

from __future__ import annotations

import torch

from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.hypotheses import Draft
from hopscope.circuits.search.config import SearchConfig
from hopscope.circuits.search.gauge import Gauge
from hopscope.circuits.search.gradients import row_scores
from hopscope.circuits.search.units import Units


def attribution(evaluator: Evaluator, units: Units, config: SearchConfig, generator: torch.Generator | None) -> Draft:
    """The fewest rows, taken by highest estimated effect (integrated gradients), that are within the limit.

    `units.base` if not even all rows are. `generator` is not used: gradients give the order.
    """
    gauge = Gauge.scanning(evaluator, config)
    scores = row_scores(gauge.evaluator)
    rows = sorted(units.on(units.base), key=lambda row: -float(scores[row.layer, row.head, row.query]))
    # The loss need not fall with every row that is added, so every number of rows is tried, the fewest first.
    for count in range(len(rows) + 1):
        program = units.only(units.base, rows[:count])
        if gauge.passes(program):
            return program
    return units.base
