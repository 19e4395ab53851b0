"""Elimination: from a model down to a small circuit, heads first, then rows; and growth, from no row up to one.

Which rows are active is decided with the model's own patterns in them and uniform ones everywhere else. A path that
only helps a later head to find its key is then needed, as it should be; under imposed patterns it would seem idle (the
exception the paper reports in Appendix E).
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
"""How many changes are tried together."""

MANY = _SIZES[-1]
"""With more changes than this, trying each alone would take too long."""

_AT_ONCE = 4
"""How many of these sizes are tried at a time, before it is decided whether to go on."""


def heads_spared(evaluator: Evaluator, units: Units, config: SearchConfig, generator: Random) -> Interventions:
    """Switch off the heads that are easily done without, the least costly first, many at a time."""
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
    """Switch off the rows that are easily done without, likewise, in the heads that are left."""
    gauge, interventions = Gauge.scanning(evaluator, config), units.base
    rows = units.on(interventions)
    if len(rows) > MANY:  # in their order, many at a time
        interventions = _in_halves(gauge, interventions, [{row: UNIFORM} for row in rows], gauge.limit(ROWS))
    for share in (ROWS, LAST):
        interventions = trimmed(gauge, units, interventions, gauge.limit(share), generator)
    return interventions


def one_by_one(evaluator: Evaluator, units: Units, config: SearchConfig, generator: Random) -> Interventions:
    """Switch rows off one at a time until no active row can be switched off."""
    gauge = Gauge.scanning(evaluator, config)
    return minimal(gauge, units, units.base, generator, gauge.limit(LAST))


def trimmed(gauge: Gauge, units: Units, interventions: Interventions, limit: float, generator: Random) -> Interventions:
    """Switch rows off, several at a time: by `uniform`, or by their mean if they are chain-agnostic."""
    interventions = _eliminated(
        gauge, interventions, [{row: UNIFORM} for row in units.on(interventions)], limit, generator
    )
    for off in (units.mean, lambda row: POSITIONAL):
        background = [{row: off(row)} for row in units.on(interventions) if off(row) in units.offs(row)]
        interventions = _eliminated(gauge, interventions, background, limit, generator)
    return interventions


def minimal(gauge: Gauge, units: Units, interventions: Interventions, generator: Random, limit: float) -> Interventions:
    """Switch rows off, `uniform` before other ways and the cheapest first, until any further one exceeds the limit."""
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
    """Interventions with rows active again that were removed last, as few as bring the loss below the threshold.

    Their number is found by halving, so that it takes some ten candidates in any model.
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
    """Make as many of the moves as the limit allows, the least costly first, several at a time."""
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
    """Make the moves in the given order; a move that does not fit is left out and the next ones are tried."""
    while moves:
        interventions, taken = _longest_prefix(gauge, interventions, moves, limit)
        moves = moves[max(taken, 1) :]
    return interventions


def _in_halves(gauge: Gauge, interventions: Interventions, moves: list[Interventions], limit: float) -> Interventions:
    """Make as many of very many moves, in the given order, as the limit allows; where some do not fit, by halves."""
    # Few sequences decide which moves are worth trying; these are then tried together on more. So to leave out k moves
    # that do not fit takes some 2 k log(moves / k) candidates on few sequences, and few candidates on more.
    fitting = _halved(gauge.roughly(), interventions, moves, limit)
    chosen = [move for move in moves if all(fitting[row] == ablation for row, ablation in move.items())]
    return _halved(gauge, interventions, chosen, limit)


def _together(interventions: Interventions, moves: Sequence[Interventions]) -> Interventions:
    return changed(interventions, {row: ablation for move in moves for row, ablation in move.items()})


def _halved(gauge: Gauge, interventions: Interventions, moves: Sequence[Interventions], limit: float) -> Interventions:
    """Make all moves together if the limit allows it, else those of the first half that it allows, then the second."""
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
    """The interventions with the longest prefix of `moves` that the limit allows, of some lengths, and that length."""
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
    """A small part of `units.base`, grown from nothing: rows are put back in random order until the limit is met.

    The row that tips the balance is needed together with those before it; it stays, and growth starts over with it. If
    growth never meets the limit, the base itself is returned.
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
