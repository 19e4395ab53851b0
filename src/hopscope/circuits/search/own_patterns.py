"""The search with the model's own patterns, in several orders: rows are removed from the model, or added one by one.

The order `least-cost` removes the cheapest rows first, `random-i` perturbs the costs, and `growing-i` starts from no
rows and adds rows one by one. All decisions are exact: a circuit is accepted by its measured loss, plus a margin, on
sequences reserved for the search. At the end, backups are looked for: rows that step in if a path of the circuit is
removed from the model (Wang et al. 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

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
from hopscope.circuits.search.gauge import Gauge, Random, random_order
from hopscope.circuits.search.simplify import chain_agnostic, simplest
from hopscope.problem.paths import AttentionPath, HeadRow, PathGroup

Algorithm = Callable[[Evaluator, Units, SearchConfig, Random], Interventions]
"""The signature of every search algorithm: it returns interventions with fewer active rows than `Units.base`.

The evaluator holds the model and the sequences. The configuration limits the loss and the amount of work. A generator
perturbs the order in which rows are tried; without a generator, the cheapest row goes first.
"""

_AT_ONCE = 256
"""How many parts of a circuit are measured together before it is checked whether one of them suffices."""

_SEQUENCES = 64
"""The number of sequences for the search for backups; the checks use other sequences."""

_MANY_PAIRS = 512
"""The search for backups is skipped if it would have to try more pairs of rows than this, with one pass per pair."""


@dataclass(frozen=True)
class Found:
    """A small circuit whose loss on the evaluator's sequences stays below the threshold.

    Attributes:
        interventions: the ablation of every row of the model; rows that are off are in the order of their removal.
        mse: the loss of the circuit.
        orders: the names of the orders that ended in it.
    """

    interventions: Interventions
    mse: float
    orders: tuple[str, ...]


@dataclass(frozen=True)
class SearchResult:
    """The distinct circuits found, sorted by number of paths, then by number of heads, then by loss.

    `left` is the number of rows left when the search was given up (`SearchBudget.most_rows`); 0 if it was not.
    """

    found: tuple[Found, ...]
    left: int = 0


def own_pattern_search(evaluator: Evaluator, units: Units, config: SearchConfig) -> Search[SearchResult]:
    """Search for the circuits of a model; the same model, problem and configuration give the same result."""
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
        generator = random_order(config, name) if number else None
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
        if active not in ends:  # the same active rows always end in the same circuit
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
    """Return the final circuit, starting from the first of `units.base`, `pool` and `model` whose loss is low enough.

    The loss is measured on all sequences. The result is empty if even the loss of the model is too high.
    """
    gauge = Gauge.confirming(evaluator, config)
    small = units.base
    end = next((start for start in (small, pool, model) if gauge.passes(start, gauge.max_loss)), None)
    if end is None:
        return {}
    if end is model and units.off_is_alike:  # a pretrained model: starting again would take hours
        end = put_back(gauge, units.within(model), small)
    if end is not small:
        limit = gauge.limit(LAST)
        end = minimal(gauge, units, trimmed(gauge, units, end, limit, None), None, limit)
    return _finished(gauge, evaluator, units, config, end)


def _finished(
    gauge: Gauge, evaluator: Evaluator, units: Units, config: SearchConfig, circuit: Interventions
) -> Interventions:
    """Remove rows up to the threshold, make rows chain-agnostic where possible, and choose the simplest patterns."""
    scan = Gauge.scanning(evaluator, config)
    trimmed_circuit = trimmed(scan, units, circuit, (scan.limit() + scan.max_loss) / 2, None)
    start = trimmed_circuit if gauge.passes(trimmed_circuit, gauge.max_loss) else circuit
    small = chain_agnostic(gauge, units, minimal(gauge, units, start, None, gauge.max_loss))
    return simplest(evaluator, units.within(small), config)


def _smaller(evaluator: Evaluator, units: Units, config: SearchConfig, generator: Random) -> Interventions:
    """Return the circuit of the smallest part of `units.base` that suffices with own patterns, or the base."""
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
    """Return a circuit with its backup paths added, and its groups: pairs of paths that can replace each other.

    A row of the circuit can have backups if the model stays below the threshold without this row. A row outside the
    circuit is one of its backups if the model exceeds the threshold without both rows. After all backups are added, two
    paths form a group if the circuit stays below the threshold without either path, but not without both. A backup
    that is in no group is removed again.
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
    """Return the groups: pairs of rows with one path each, such that a circuit stays below the threshold without either
    row, but not without both. There are no groups if the circuit itself is not below the threshold."""
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
