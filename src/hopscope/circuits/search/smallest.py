"""Whether a part of a circuit suffices: every subset of its rows, or every part that is one or two rows smaller."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Literal

import torch

from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.hypotheses import Draft
from hopscope.circuits.search.config import FEW, SearchConfig
from hopscope.circuits.search.gauge import Gauge
from hopscope.circuits.search.units import Units

_AT_ONCE = 256
"""How many parts are measured together before it is checked whether one of them holds."""

Minimality = Literal["every subset", "pairs", "single", "none"]
"""Which parts of a circuit were tried: every subset of its rows, every part one or two rows smaller (`pairs`), every
part one row smaller (`single`, which the search itself has tried), or none."""


def smallest(evaluator: Evaluator, units: Units, config: SearchConfig, generator: torch.Generator | None) -> Draft:
    """The smallest part of `units.base`, with the model's own patterns, that will do; else the base itself."""
    program = units.natural(units.base)
    rows = units.on(program)
    parts = [units.only(program, kept) for size in sizes(len(rows), config) for kept in combinations(rows, size)]
    gauge = Gauge.confirming(evaluator, config)
    return _first_passing(gauge, program, parts) or units.base


def sizes(rows: int, config: SearchConfig) -> Sequence[int]:
    """The sizes of the parts that are tried, smallest first; empty for `single`."""
    least: dict[Minimality, int] = {"every subset": 0, "pairs": max(rows - 2, 0)}
    return range(least.get(tried(rows, config), rows), rows)


def tried(rows: int, config: SearchConfig) -> Minimality:
    """Which parts are tried of a circuit with so many rows."""
    return "every subset" if rows <= config.every_subset else "pairs" if rows <= config.pairs else "single"


def _first_passing(gauge: Gauge, program: Draft, parts: Sequence[Draft]) -> Draft | None:
    """The first part that will do. Few sequences rule out what is hopeless; all sequences decide on the rest."""
    few = gauge.evaluator.part(FEW)
    for first in range(0, len(parts), _AT_ONCE):
        chosen = parts[first : first + _AT_ONCE]
        for number in gauge.hopeful(program, gauge.costs(program, chosen, few)[1], gauge.max_loss):
            if gauge.passes(chosen[number], gauge.max_loss):
                return chosen[number]
    return None
