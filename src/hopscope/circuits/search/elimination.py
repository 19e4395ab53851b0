"""Elimination removes heads and then rows from a model until a small circuit is left; growth starts with no rows.

Active rows keep the model's own patterns, and all other rows are uniform. A path that only helps a later head to find
its key is therefore needed, as it should be. With imposed patterns it would seem idle, which is the exception that the
paper reports in Appendix E.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import torch

from hopscope.circuits.evaluate.ablations import POSITIONAL, UNIFORM, Interventions, changed
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.units import Units
from hopscope.circuits.search.config import HEADS, LAST, ROUGHLY, ROWS, SearchConfig
from hopscope.circuits.search.gauge import Gauge, Random, jitter
from hopscope.circuits.search.gradients import head_order
from hopscope.problem.paths import HeadRow

_SIZES = (1, 2, 3, 4, 6, 8, 11, 15, 20, 27, 36, 48, 64, 96, 128, 192, 256)
"""The numbers of changes that are tried together."""

MANY = _SIZES[-1]
"""With more changes than this, trying each change alone would take too long."""

_AT_ONCE = 4
"""How many of the `_SIZES` are tried at a time; larger sizes are tried only if one of these is within the limit."""


def heads_spared(evaluator: Evaluator, units: Units, config: SearchConfig, generator: Random) -> Interventions:
    """Switch off heads that the model can easily do without, the cheapest first, many at a time."""
    gauge, heads = Gauge.scanning(evaluator, config), evaluator.shape.heads
    by_head: dict[int, Interventions] = {}
    for row in units.on(units.base):
        by_head.setdefault(row.layer * heads + row.head, {})[row] = UNIFORM
    moves = [by_head[head] for head in head_order(gauge.evaluator, config.budget.estimating) if head in by_head]
    if len(moves) > MANY:
        return _in_halves(gauge, units.base, moves, gauge.limit(HEADS))
    if moves:
        return _in_order(gauge, units.base, moves, gauge.limit(HEADS))
    return _eliminated(gauge, units.base, list(by_head.values()), gauge.limit(HEADS), generator)


def rows_spared(evaluator: Evaluator, units: Units, config: SearchConfig, generator: Random) -> Interventions:
    """Switch off rows that the model can easily do without, the cheapest first, in the heads that are left."""
    gauge, interventions = Gauge.scanning(evaluator, config), units.base
    rows = units.on(interventions)
    if len(rows) > MANY:  # in the given order, many at a time
        interventions = _in_halves(gauge, interventions, [{row: UNIFORM} for row in rows], gauge.limit(ROWS))
    for share in (ROWS, LAST):
        interventions = trimmed(gauge, units, interventions, gauge.limit(share), generator)
    return interventions


def one_by_one(evaluator: Evaluator, units: Units, config: SearchConfig, generator: Random) -> Interventions:
    """Switch rows off one at a time until no active row can be switched off."""
    gauge = Gauge.scanning(evaluator, config)
    return minimal(gauge, units, units.base, generator, gauge.limit(LAST))


def trimmed(gauge: Gauge, units: Units, interventions: Interventions, limit: float, generator: Random) -> Interventions:
    """Switch off rows, several at a time: make rows uniform first, then replace chain-agnostic rows by their mean."""
    uniform: list[Interventions] = [{row: UNIFORM} for row in units.on(interventions)]
    interventions = _eliminated(gauge, interventions, uniform, limit, generator)
    for off in (units.mean, lambda row: POSITIONAL):
        background = [{row: off(row)} for row in units.on(interventions) if off(row) in units.offs(row)]
        interventions = _eliminated(gauge, interventions, background, limit, generator)
    return interventions


def minimal(gauge: Gauge, units: Units, interventions: Interventions, generator: Random, limit: float) -> Interventions:
    """Switch off rows, the cheapest first, until the limit allows no more; `uniform` is tried before other ways."""
    while True:
        before = interventions
        for uniform in (True, False):
            ways = [(row, off) for row in units.on(interventions) for off in units.offs(row)]
            moves = [(row, off) for row, off in ways if (off == UNIFORM) == uniform]
            start = interventions
            for number in gauge.by_cost(start, [{**start, row: off} for row, off in moves], limit, generator):
                row, off = moves[number]
                gauge.evaluator.depart_from(interventions)
                if not units.is_off(row, interventions[row]) and gauge.passes({**interventions, row: off}, limit):
                    interventions = changed(interventions, {row: off})
        if interventions is before:
            return interventions


def put_back(gauge: Gauge, units: Units, interventions: Interventions) -> Interventions:
    """Make rows active again, in reverse order of their removal, until the loss is below the threshold.

    The number of rows is found by bisection, which takes about ten candidates in any model.
    """
    off = {*units.rows} - {*units.on(interventions)}
    removed = [row for row in reversed(interventions) if row in off]

    def grown(count: int) -> Interventions:
        return interventions | {row: units.base[row] for row in removed[:count]}

    fewest = bisect_left(range(len(removed)), True, key=lambda count: gauge.passes(grown(count), gauge.max_loss))
    return grown(fewest)


def _eliminated(
    gauge: Gauge, interventions: Interventions, moves: list[Interventions], limit: float, generator: Random
) -> Interventions:
    """Make as many of the moves as the limit allows, the cheapest first, several at a time."""
    while moves:
        gauge.rough.depart_from(interventions)
        now, *scores = gauge.rough.mse([interventions, *({**interventions, **move} for move in moves)])
        slack = limit - gauge.score(interventions)
        fitting = [number for number, score in enumerate(scores) if score - now <= ROUGHLY * slack]
        least, noise = min(scores), jitter(len(moves), generator)
        costs = [(score - least) * factor for score, factor in zip(scores, noise, strict=True)]
        moves = [moves[number] for number in sorted(fitting, key=lambda n: (costs[n], n))]
        gauge.evaluator.depart_from(interventions)
        interventions, taken = _longest_prefix(gauge, interventions, moves, limit)
        if not taken:
            break
        moves = moves[taken:]
    return interventions


def _in_order(gauge: Gauge, interventions: Interventions, moves: list[Interventions], limit: float) -> Interventions:
    """Make the moves in the given order, leaving out every move that would exceed the limit."""
    while moves:
        interventions, taken = _longest_prefix(gauge, interventions, moves, limit)
        moves = moves[max(taken, 1) :]
    return interventions


def _in_halves(gauge: Gauge, interventions: Interventions, moves: list[Interventions], limit: float) -> Interventions:
    """Make as many moves as the limit allows, in the given order, by splitting a very long list into halves."""
    # Few sequences decide which moves are worth trying; those moves are then tried together on more sequences. To leave
    # out k moves that do not fit, this needs about 2 k log(moves / k) candidates on few sequences, and few on more.
    fitting = _halved(gauge.roughly(), interventions, moves, limit)
    chosen = [move for move in moves if all(fitting[row] == ablation for row, ablation in move.items())]
    return _halved(gauge, interventions, chosen, limit)


def _together(interventions: Interventions, moves: Sequence[Interventions]) -> Interventions:
    return changed(interventions, {row: ablation for move in moves for row, ablation in move.items()})


def _halved(gauge: Gauge, interventions: Interventions, moves: Sequence[Interventions], limit: float) -> Interventions:
    """Make all moves together if the limit allows it; otherwise do so with the first half, then with the second."""
    together = _together(interventions, moves)
    gauge.evaluator.depart_from(interventions)
    if gauge.passes(together, limit):
        return together
    if len(moves) < 2:
        return interventions
    middle = len(moves) // 2
    return _halved(gauge, _halved(gauge, interventions, moves[:middle], limit), moves[middle:], limit)


def _longest_prefix(
    gauge: Gauge, interventions: Interventions, moves: Sequence[Interventions], limit: float
) -> tuple[Interventions, int]:
    """Return the interventions after the longest prefix of `moves` within the limit, and its length (see `_SIZES`)."""
    sizes = [size for size in _SIZES if size < len(moves)] + ([len(moves)] if moves else [])
    best, taken = interventions, 0
    for first in range(0, len(sizes), _AT_ONCE):
        tried = sizes[first : first + _AT_ONCE]
        candidates = [_together(interventions, moves[:size]) for size in tried]
        for size, candidate, score in zip(tried, candidates, gauge.scores(candidates), strict=True):
            if score <= limit:
                best, taken = candidate, size
        if taken < tried[0]:
            break
    return best, taken


def grown(evaluator: Evaluator, units: Units, config: SearchConfig, generator: Random) -> Interventions:
    """Grow a small part of `units.base` from no rows: add rows in random order until the loss is within the limit.

    The last row added is needed together with the rows before it, so it is kept, and growth starts again from the kept
    rows. If the limit is never met, the base itself is returned.
    """
    gauge, rows = Gauge.scanning(evaluator, config), units.on(units.base)
    limit = gauge.limit(LAST)
    order = range(len(rows)) if generator is None else torch.randperm(len(rows), generator=generator).tolist()
    shuffled, needed = [rows[number] for number in order], list[HeadRow]()

    def suffice(rows: Sequence[HeadRow]) -> bool:
        return gauge.passes(units.only(units.base, rows), limit)

    while not suffice(needed):
        rest = [row for row in shuffled if row not in needed]
        fewest = bisect_left(range(1, len(rest)), True, key=lambda count: suffice([*needed, *rest[:count]])) + 1
        if not rest or (fewest == len(rest) and not suffice([*needed, *rest])):
            return units.base
        needed.append(rest[fewest - 1])
        shuffled = [*needed, *rest[: fewest - 1]]
    return units.only(units.base, needed)
