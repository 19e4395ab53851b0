"""The search with the model's own patterns: ways down from the model, and ways up from no row, end in circuits.

Each way is one order: `least-cost` first removes what costs least, `random-i` perturbs the costs, `growing-i` starts
from nothing and puts rows back one by one. All decisions are exact: a circuit is accepted for the loss it has, with a
margin on top, on sequences reserved for the search. Last come backups: what steps in where a path of the circuit is
taken from the model (Wang et al. 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import torch

from hopscope.circuits.evaluate.ablations import UNIFORM, Interventions, one_hot
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.units import Units
from hopscope.circuits.resume import Search, Stage
from hopscope.circuits.search.config import FEW, LAST, SearchConfig
from hopscope.circuits.search.elimination import (
    grown,
    heads_spared,
    minimal,
    one_by_one,
    put_back,
    rows_spared,
    trimmed,
)
from hopscope.circuits.search.gauge import Gauge, Random
from hopscope.circuits.search.simplify import chain_agnostic, simplest
from hopscope.problem.paths import AttentionPath, HeadRow, PathGroup

Algorithm = Callable[[Evaluator, Units, SearchConfig, Random], Interventions]
"""The signature of every search algorithm: from `Units.base` to interventions with fewer active rows.

The evaluator has the model and the sequences, the configuration says how much loss may be spent and how much work is
done. A generator perturbs the order in which things are tried; without one, the least costly goes first.
"""

_AT_ONCE = 256
"""How many parts are measured together before it is checked whether one of them will do."""

_SEQUENCES = 64
"""How many sequences backups are looked for on; the checks decide on others."""

_MANY_PAIRS = 512
"""With more pairs of a row and a possible backup than this, which take a pass each, none are looked for."""


@dataclass(frozen=True)
class Found:
    """A small circuit whose loss on the evaluator's sequences stays below the threshold.

    Attributes:
        interventions: the ablation of every row of the model; those that are off in the order of their removal.
        mse: its loss.
        orders: the names of the orders that ended in it.
    """

    interventions: Interventions
    mse: float
    orders: tuple[str, ...]


@dataclass(frozen=True)
class SearchResult:
    """Distinct circuits: fewest paths first, then fewest heads, then lowest loss.

    `left` says how many rows were left when the search was given up (`SearchBudget.most_rows`), 0 if it was not.
    """

    found: tuple[Found, ...]
    left: int = 0


def own_pattern_search(evaluator: Evaluator, units: Units, config: SearchConfig) -> Search[SearchResult]:
    """Search for the circuits of a model. The same model, problem and configuration give the same result."""
    if float(evaluator.own.mean()) > config.max_loss:
        return SearchResult(())
    down = ["least-cost", *(f"random-{number}" for number in range(1, config.budget.orders))]
    names = [*down, *(f"growing-{number}" for number in range(1, config.budget.growing + 1))]
    pools: list[Interventions] = []
    ends: dict[tuple[HeadRow, ...], Interventions] = {}
    orders: dict[tuple[AttentionPath, ...], tuple[Interventions, list[str]]] = {}

    def stage(
        number: int, what: str, algorithm: Algorithm, start: Interventions, generator: Random = None
    ) -> Stage[Interventions]:
        name = f"{names[number]}: {what}" if number < len(names) else what
        compute = partial(algorithm, evaluator, units.within(start), config, generator)
        return Stage(name, compute, evaluator.problem, generator=generator, done=number, stages=len(names) + 1)

    for number, name in enumerate(names):
        generator = torch.Generator().manual_seed(config.seed_of(name)) if number else None
        if name in down:
            heads = yield stage(number, "heads", heads_spared, units.base, generator)
            pool = yield stage(number, "rows", rows_spared, heads, generator)
            left, most = len(units.on(pool)), config.budget.most_rows
            if most is not None and left > most:
                return SearchResult((), left)
            pools.append(pool)
            small = yield stage(number, "one by one", one_by_one, pool, generator)
        else:
            pool = pools[(number - len(down)) % len(down)]
            part = yield stage(number, "growth", grown, pool, generator)
            small = yield stage(number, "one by one", one_by_one, part)
        active = tuple(units.on(small))
        if active not in ends:  # what led to an end does so again
            whole = partial(_end, pool=pool, model=units.base)
            ends[active] = yield stage(number, "on all sequences", whole, small)
        if end := ends[active]:
            orders.setdefault(tuple(units.paths(end)), (end, []))[1].append(name)

    def small_first(found: Found) -> tuple[int, int, float]:
        paths = units.paths(found.interventions)
        return len(paths), len({(path.layer, path.head) for path in paths}), found.mse

    found = sorted((Found(end, evaluator.mse([end])[0], (*of,)) for end, of in orders.values()), key=small_first)
    if not found:
        return SearchResult(())
    while True:
        part = yield stage(len(names), f"subsets of circuit {len(found)}", _smaller, found[0].interventions)
        if part == found[0].interventions:
            return SearchResult(tuple(found))
        found.insert(0, Found(part, evaluator.mse([part])[0], (f"part of {found[0].orders[0]}",)))


def _end(
    evaluator: Evaluator,
    units: Units,
    config: SearchConfig,
    generator: Random,
    *,
    pool: Interventions,
    model: Interventions,
) -> Interventions:
    """The circuit of `units.base`, or of the pool or the model if its loss is too high on all sequences; else none."""
    gauge = Gauge.confirming(evaluator, config)
    small = units.base
    end = next((start for start in (small, pool, model) if gauge.passes(start, gauge.max_loss)), None)
    if end is None:
        return {}
    if end is model and units.off_is_alike:  # a pretrained one: to begin again would take hours
        end = put_back(gauge, units.within(model), small)
    if end is not small:
        limit = gauge.limit(LAST)
        end = minimal(gauge, units, trimmed(gauge, units, end, limit, None), None, limit)
    return _finished(gauge, evaluator, units, config, end)


def _finished(
    gauge: Gauge, evaluator: Evaluator, units: Units, config: SearchConfig, circuit: Interventions
) -> Interventions:
    """Remove rows up to the threshold; find which of the rest may be chain-agnostic; choose the simplest patterns."""
    scan = Gauge.scanning(evaluator, config)
    trimmed_circuit = trimmed(scan, units, circuit, (scan.limit() + scan.max_loss) / 2, None)
    start = trimmed_circuit if gauge.passes(trimmed_circuit, gauge.max_loss) else circuit
    small = chain_agnostic(gauge, units, minimal(gauge, units, start, None, gauge.max_loss))
    return simplest(evaluator, units.within(small), config)


def _smaller(evaluator: Evaluator, units: Units, config: SearchConfig, generator: Random) -> Interventions:
    """The circuit of the smallest part of `units.base`, with own patterns, that will do; the base itself if none."""
    interventions = units.own_patterns(units.base)
    rows = units.on(interventions)
    sizes = range(config.budget.smallest(len(rows)), len(rows))
    parts = [units.only(interventions, subset) for size in sizes for subset in combinations(rows, size)]
    gauge = Gauge.confirming(evaluator, config)
    few = gauge.evaluator.part(FEW)
    for first in range(0, len(parts), _AT_ONCE):
        chosen = parts[first : first + _AT_ONCE]
        for number in gauge.hopeful(interventions, gauge.costs(interventions, chosen, few)[1], gauge.max_loss):
            if gauge.passes(chosen[number], gauge.max_loss):
                return _finished(Gauge.confirming(evaluator, config), evaluator, units, config, chosen[number])
    return units.base


def with_backups(
    evaluator: Evaluator, units: Units, circuit: Interventions, max_loss: float
) -> tuple[Interventions, tuple[PathGroup, ...]]:
    """A circuit with its backup paths, and the groups of two paths of which one suffices.

    A row of the circuit may have a backup if the model stays below the threshold without it. A row outside is a backup
    if it does not without both. With all backups in the circuit, two paths are a group if the circuit stays below the
    threshold without either, and not without both; a backup that is in no group is left out again.
    """
    few = evaluator.part(_SEQUENCES)
    active, outside = units.on(circuit), [row for row in units.rows if units.heavy(row)]
    outside = [row for row in outside if row not in active and circuit[row] == UNIFORM]
    without = few.mse([{row: UNIFORM} for row in active])
    redundant = [row for row, loss in zip(active, without, strict=True) if loss <= max_loss]
    pairs = [(row, other) for row in redundant for other in outside]
    both = few.mse([{row: UNIFORM, other: UNIFORM} for row, other in pairs]) if len(pairs) <= _MANY_PAIRS else []
    backups = sorted({other for (_, other), loss in zip(pairs, both, strict=False) if loss > max_loss})
    while backups:
        grown = circuit | {row: one_hot(units.heavy(row)[0]) for row in backups}
        groups = _groups(few, units, grown, [*redundant, *backups], max_loss)
        grouped = {path.row for group in groups for path in group.paths}
        left = [row for row in backups if row in grouped]
        if left == backups:
            return grown, groups
        backups = left
    return circuit, ()


def _groups(
    few: Evaluator, units: Units, circuit: Interventions, rows: Sequence[HeadRow], max_loss: float
) -> tuple[PathGroup, ...]:
    """The pairs of rows with one path each, without either of which a circuit is below the threshold, and not without
    both; none where the circuit itself is not below it."""
    own = units.own_patterns(circuit)
    paths = {row: [path for path in units.paths(circuit) if path.row == row] for row in rows}
    single = {row: of_row[0] for row, of_row in paths.items() if len(of_row) == 1}
    few.depart_from(own)
    whole, *without = few.mse([own, *({**own, row: UNIFORM} for row in single)])
    if whole > max_loss:
        return ()
    spare = [row for row, loss in zip(single, without, strict=True) if loss <= max_loss]
    pairs = [*combinations(spare, 2)]
    both = few.mse([{**own, row: UNIFORM, other: UNIFORM} for row, other in pairs])
    needed = (pair for pair, loss in zip(pairs, both, strict=True) if loss > max_loss)
    return tuple(PathGroup((single[row], single[other])) for row, other in needed)
