"""The search: several ways down from the model, and ways up from nothing, end in circuits; the smallest come first.

Each way is one order: `least-cost` first removes what costs least, `random-i` perturbs the costs, `growing-i` starts
from nothing and puts rows back one by one. All decisions are exact: a circuit is accepted for the loss it has, with
doubt on top, on sequences set apart for the search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, Literal

import torch

from hopscope.circuits.evaluate.ablations import UNIFORM, Interventions, from_json, to_json
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.resume import Journal
from hopscope.circuits.search.config import FEW, LAST, SearchConfig
from hopscope.circuits.search.down import heads_spared, minimal, one_by_one, rows_spared, trimmed
from hopscope.circuits.search.gauge import Gauge, Random
from hopscope.circuits.search.simplify import simplest, told_alike
from hopscope.circuits.search.up import grown
from hopscope.problem.counter import derive_seed
from hopscope.problem.paths import AttentionPath, HeadRow

Algorithm = Callable[[Evaluator, Units, SearchConfig, Random], Interventions]
"""The signature of every search algorithm: it starts from `Units.base` and returns smaller interventions."""

Minimality = Literal["every subset", "pairs", "single", "none"]
"""Which parts of a circuit were tried: every subset of its rows, every part one or two rows smaller (`pairs`), every
part one row smaller (`single`, which the search itself has tried), or none."""

_AT_ONCE = 256
"""How many parts are measured together before it is checked whether one of them will do."""


@dataclass(frozen=True)
class Found:
    """A small circuit whose loss on the evaluator's sequences stays below the threshold: the ablation of every row of
    the model, how many paths it has in how many heads, and the names of the orders that ended in it."""

    program: Interventions
    paths: int
    heads: int
    mse: float
    orders: tuple[str, ...]


@dataclass(frozen=True)
class SearchResult:
    """The model's own loss, and distinct circuits: fewest paths first, then fewest heads, then lowest loss.

    `minimality` says which parts of the first were tried and will not do; `left` how many rows were left when the
    search was given up (`SearchConfig.most_rows`), 0 if it was not.
    """

    full_mse: float
    found: tuple[Found, ...]
    minimality: Minimality
    left: int = 0


class Orders:
    """A search over one model."""

    def __init__(
        self, evaluator: Evaluator, units: Units, config: SearchConfig, journal: Journal | None = None
    ) -> None:
        self._evaluator, self._units, self._config = evaluator, units, config
        self._journal = journal or Journal()
        self._ends: dict[tuple[HeadRow, ...], Interventions | None] = {}
        self._at = 0, 1

    def run(self) -> SearchResult:
        """Search. The same model, problem and configuration give the same result, resumed or not."""
        full = float(self._evaluator.own.mean())
        if full > self._config.max_loss:
            return SearchResult(full, (), "none")
        down = ["least-cost", *(f"random-{number}" for number in range(1, self._config.orders))]
        names = [*down, *(f"growing-{number}" for number in range(1, self._config.growing + 1))]
        ends: list[tuple[str, Interventions]] = []
        for number, name in enumerate(names):
            self._at = number, len(names) + 1
            self._journal.progress(name, *self._at)
            way = partial(self._descend, name) if name in down else partial(self._grow, name, down)
            made = self._journal.once(name, way, self._evaluator)
            if left := made.get("left"):
                return SearchResult(full, (), "none", left)
            end = None if made["end"] is None else self._read(made["end"])
            if small := made.get("small"):  # what led to an end does so again, even if the search was interrupted
                self._ends.setdefault(tuple(self._units.on(self._read(small))), end)
            if end is not None:
                ends.append((name, end))
        self._journal.progress("subsets", len(names), len(names) + 1)
        found, minimality = self._smallest(self._distinct(ends))
        self._journal.progress("done", len(names) + 1, len(names) + 1)
        return SearchResult(full, tuple(found), minimality)

    def _descend(self, name: str) -> dict[str, Any]:
        """One way down: the rows left once the easily spared are off and, if they are not too many, the circuit."""
        generator = None if name == "least-cost" else self._generator(name)
        heads = self._stage(name, "heads", heads_spared, self._units.base, generator)
        pool = self._stage(name, "rows", rows_spared, heads, generator)
        left, most = len(self._units.on(pool)), self._config.most_rows
        if most is not None and left > most:
            return {"left": left}
        small = self._stage(name, "one by one", one_by_one, pool, generator)
        return {"pool": self._plain(pool), **self._ended(pool, small)}

    def _stage(
        self, order: str, name: str, algorithm: Algorithm, start: Interventions, generator: Random
    ) -> Interventions:
        """One stage of a way down, remembered with the random generator's state until its order is finished."""

        def made() -> dict[str, Any]:
            program = algorithm(self._evaluator, self._units.within(start), self._config, generator)
            state = "" if generator is None else bytes(generator.get_state().tolist()).hex()
            return {"program": self._plain(program), "random": state}

        self._journal.progress(f"{order}: {name}", *self._at)
        found = self._journal.once(f"{order}: {name}", made, self._evaluator)
        if generator is not None:
            generator.set_state(torch.tensor(list(bytes.fromhex(found["random"])), dtype=torch.uint8))
        return self._read(found["program"])

    def _grow(self, name: str, down: list[str]) -> dict[str, Any]:
        """One way up, from the rows that a way down had left once the easily spared was off."""
        number = int(name.removeprefix("growing-"))
        pool = self._read(self._journal.memory[down[(number - 1) % len(down)]]["pool"])
        part = grown(self._evaluator, self._units.within(pool), self._config, self._generator(name))
        return self._ended(pool, self._apply(one_by_one, part))

    def _ended(self, pool: Interventions, small: Interventions) -> dict[str, Any]:
        """What a way ended in: `small`, and its circuit, minimal on all sequences, every row in its simplest form.

        If the loss of `small` is too high on all sequences, the search goes back to the pool, or to the model, and on
        from there on all sequences. None if not even the model's own loss is low enough.
        """
        signature = tuple(self._units.on(small))
        if signature not in self._ends:
            gauge = Gauge.confirming(self._evaluator, self._config)
            stages = (small, pool, self._units.base)
            end = next((stage for stage in stages if gauge.passes(stage, gauge.max_loss)), None)
            if end is not None and end is not small:
                limit = gauge.limit(LAST)
                end = minimal(gauge, self._units, trimmed(gauge, self._units, end, limit, None), None, limit)
            self._ends[signature] = None if end is None else self._finished(gauge, end)
        return {"small": self._plain(small), "end": self._plain(self._ends[signature])}

    def _finished(self, gauge: Gauge, program: Interventions) -> Interventions:
        """Remove rows up to the threshold; tell which of the rest need not tell chains apart; choose forms."""
        scan = Gauge.scanning(self._evaluator, self._config)
        some = trimmed(scan, self._units, program, (scan.limit() + scan.max_loss) / 2, None)
        start = some if gauge.passes(some, gauge.max_loss) else program
        small = minimal(gauge, self._units, start, None, gauge.max_loss)
        return self._apply(simplest, told_alike(gauge, self._units, small))

    def _apply(self, algorithm: Algorithm, program: Interventions) -> Interventions:
        return algorithm(self._evaluator, self._units.within(program), self._config, None)

    def _distinct(self, ends: list[tuple[str, Interventions]]) -> list[Found]:
        by_paths: dict[tuple[AttentionPath, ...], tuple[Interventions, list[str]]] = {}
        for name, program in ends:
            by_paths.setdefault(tuple(self._units.paths(program)), (program, []))[1].append(name)
        found = [self._found(program, *names) for program, names in by_paths.values()]
        return sorted(found, key=lambda one: (one.paths, one.heads, one.mse))

    def _found(self, program: Interventions, *orders: str) -> Found:
        paths = self._units.paths(program)
        heads = len({(path.layer, path.head) for path in paths})
        return Found(program, len(paths), heads, self._evaluator.mse([program])[0], orders)

    def _smallest(self, found: list[Found]) -> tuple[list[Found], Minimality]:
        """Try whether a part of the first circuit will do; as long as one does, that part comes first."""
        if not found:
            return found, "none"
        first = found[0]
        part = self._apply(smallest, first.program)
        if part is first.program:
            return found, tried(len(self._units.on(part)), self._config)
        end = self._finished(Gauge.confirming(self._evaluator, self._config), part)
        return self._smallest([self._found(end, f"part of {first.orders[0]}"), *found])

    def _plain(self, program: Interventions | None) -> list[dict[str, Any]] | None:
        return None if program is None else to_json(program, self._evaluator.problem)

    def _read(self, program: Any) -> Interventions:
        return dict.fromkeys(self._evaluator.rows, UNIFORM) | from_json(program, self._evaluator.problem)

    def _generator(self, purpose: str) -> torch.Generator:
        return torch.Generator().manual_seed(derive_seed(self._config.seed, "circuit search", purpose))


def smallest(evaluator: Evaluator, units: Units, config: SearchConfig, generator: Random) -> Interventions:
    """The smallest part of `units.base`, with the model's own patterns, that will do; else the base itself.

    Few sequences rule out what is hopeless; all sequences decide on the rest.
    """
    program = units.natural(units.base)
    rows = units.on(program)
    least = {"every subset": 0, "pairs": max(len(rows) - 2, 0)}.get(tried(len(rows), config), len(rows))
    parts = [units.only(program, kept) for size in range(least, len(rows)) for kept in combinations(rows, size)]
    gauge = Gauge.confirming(evaluator, config)
    few = gauge.evaluator.part(FEW)
    for first in range(0, len(parts), _AT_ONCE):
        chosen = parts[first : first + _AT_ONCE]
        for number in gauge.hopeful(program, gauge.costs(program, chosen, few)[1], gauge.max_loss):
            if gauge.passes(chosen[number], gauge.max_loss):
                return chosen[number]
    return units.base


def tried(rows: int, config: SearchConfig) -> Minimality:
    """Which parts are tried of a circuit with so many rows."""
    return "every subset" if rows <= config.every_subset else "pairs" if rows <= config.pairs else "single"
