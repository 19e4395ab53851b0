"""A way up: from nothing, rows are put back until the loss stays below the threshold."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

import torch

from hopscope.circuits.evaluate.ablations import Interventions
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.search.config import LAST, SearchConfig
from hopscope.circuits.search.gauge import Gauge, Random
from hopscope.problem.paths import HeadRow


def grown(evaluator: Evaluator, units: Units, config: SearchConfig, generator: Random) -> Interventions:
    """A small part of `units.base`, grown from nothing: its rows are put back in random order until the limit holds.

    The row that tips the balance is needed together with those before it; it stays, and growth starts over with it. If
    growth never holds the limit, the base itself is returned. Without a generator, rows are put back in their order.
    """
    gauge, rows = Gauge.scanning(evaluator, config), units.on(units.base)
    limit = gauge.limit(LAST)
    order = range(len(rows)) if generator is None else torch.randperm(len(rows), generator=generator).tolist()
    shuffled, kept = [rows[number] for number in order], list[HeadRow]()

    def holds(rows: Sequence[HeadRow]) -> bool:
        return gauge.passes(units.only(units.base, rows), limit)

    while not holds(kept):
        rest = [row for row in shuffled if row not in kept]
        needed = _needed(kept, rest, holds)
        if needed is None:
            return units.base
        kept.append(rest[needed - 1])
        shuffled = [*kept, *rest[: needed - 1]]
    return units.only(units.base, kept)


def _needed(kept: Sequence[HeadRow], rest: Sequence[HeadRow], holds: Callable[[Sequence[HeadRow]], bool]) -> int | None:
    """How many of the rest, from the first on, are needed beside those kept; None if not even all of them suffice."""

    def enough(count: int) -> bool:
        return holds([*kept, *rest[:count]])

    if not rest:
        return None
    needed = bisect_left(range(1, len(rest)), True, key=enough) + 1
    return None if needed == len(rest) and not enough(needed) else needed
