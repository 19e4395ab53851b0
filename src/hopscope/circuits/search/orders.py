"""Several ways down, several ways up, and every distinct small circuit they end in.

Each way is one order: `least-cost` lets go first what costs least, `random-i` perturbs the costs, `growing-i` puts rows
back one by one, from nothing. All decisions are exact: a program is accepted for the loss it has, with doubt on top, on
sequences set apart for the search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.form import UNIFORM
from hopscope.circuits.hypotheses import Rows
from hopscope.circuits.programs import from_json, to_json
from hopscope.circuits.search.budget import LAST, Budget
from hopscope.circuits.search.down import minimal, one_by_one, spared, trimmed
from hopscope.circuits.search.forms import simplest
from hopscope.circuits.search.gauge import Gauge
from hopscope.circuits.search.smallest import Minimality, smallest, tried
from hopscope.circuits.search.units import Units
from hopscope.circuits.search.up import grown
from hopscope.problem.counter import derive_seed
from hopscope.theory.path import AttentionPath, Row

Watch = Callable[[str, int, int], None]
"""Told what is being done, how many stages are finished, and how many there are."""

Memory = dict[str, Any]
"""Ends of the orders that are finished, by name, as plain JSON: an interrupted search goes on from there."""


@dataclass(frozen=True)
class Found:
    """A small program that holds the bar.

    Attributes:
        program: every row of the model.
        paths: how many attention paths it has.
        heads: in how many heads.
        mse: its loss on the evaluator's sequences.
        orders: the orders that ended in it.
    """

    program: Rows
    paths: int
    heads: int
    mse: float
    orders: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """What a search gives back.

    Attributes:
        full_mse: the model's own loss.
        found: distinct programs, fewest paths first, then fewest heads, then lowest loss; empty if none holds the bar.
        minimality: what was tried of the first, and does not hold the bar.
        evaluations: programs evaluated.
    """

    full_mse: float
    found: tuple[Found, ...]
    minimality: Minimality
    evaluations: int


def search(evaluator: Evaluator, units: Units, budget: Budget, generator: torch.Generator | None) -> Rows:
    """The circuit with the fewest paths that several orders end in; `units.base` where none holds the bar."""
    seed = 0 if generator is None else int(torch.randint(2**31, (), generator=generator))
    found = Orders(evaluator, units, budget, seed).run().found
    return found[0].program if found else units.base


class Orders:
    """A search over one model.

    Args:
        evaluator: the model, and the sequences that decide in the end.
        units: what is decided on.
        budget: how.
        seed: of the random orders.
        watch: told where the search stands.
        memory: ends of orders by name; what is there is not done again, what is done is added.
        remember: called after `memory` has grown.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        units: Units,
        budget: Budget,
        seed: int = 0,
        watch: Watch | None = None,
        memory: Memory | None = None,
        remember: Callable[[Memory], None] | None = None,
    ) -> None:
        self._evaluator, self._units, self._budget, self._seed = evaluator, units, budget, seed
        self._watch, self._remember = watch or (lambda *standing: None), remember or (lambda memory: None)
        self._memory: Memory = {} if memory is None else memory
        self._ends: dict[tuple[Row, ...], Rows | None] = {}

    def run(self) -> Outcome:
        """Search. The same model, problem, budget and seed give the same result, resumed or not."""
        full = self._evaluator.mse([{}])[0]
        if full > self._budget.bar:
            return Outcome(full, (), "none", self._evaluator.evaluations)
        down = ["least-cost", *(f"random-{number}" for number in range(1, self._budget.orders))]
        names = [*down, *(f"growing-{number}" for number in range(1, self._budget.growing + 1))]
        ends: list[tuple[str, Rows]] = []
        for number, name in enumerate(names):
            self._watch(name, number, len(names) + 1)
            if name not in self._memory:
                self._memory[name] = self._descend(name) if name in down else self._grow(name, down)
                self._remember(self._memory)
            if self._memory[name]["end"] is not None:
                ends.append((name, self._read(self._memory[name]["end"])))
        self._watch("subsets", len(names), len(names) + 1)
        found, minimality = self._smallest(self._distinct(ends))
        self._watch("done", len(names) + 1, len(names) + 1)
        return Outcome(full, tuple(found), minimality, self._evaluator.evaluations)

    def _descend(self, name: str) -> Memory:
        """One way down: what is left when the easily spared is off, and the circuit it ends in."""
        generator = None if name == "least-cost" else self._generator(name)
        pool = spared(self._evaluator, self._units, self._budget, generator)
        end = self._end(pool, one_by_one(self._evaluator, self._units.within(pool), self._budget, generator))
        return {"pool": self._plain(pool), "end": self._plain(end)}

    def _grow(self, name: str, down: list[str]) -> Memory:
        """One way up, out of what a way down had left."""
        pool = self._read(self._memory[down[(int(name.partition("-")[2]) - 1) % len(down)]]["pool"])
        part = grown(self._evaluator, self._units.within(pool), self._budget, self._generator(name))
        return {"end": self._plain(self._end(pool, self._apply(one_by_one, part)))}

    def _end(self, pool: Rows, small: Rows) -> Rows | None:
        """The circuit for `small`: minimal on all sequences, every row in its form.

        Where it does not hold the bar there, the search goes back to the pool, or to the model, and on from there on
        all sequences. None if not even the model does.
        """
        signature = tuple(self._units.on(small))
        if signature not in self._ends:
            gauge = Gauge.confirming(self._evaluator, self._budget)
            end = next((stage for stage in (small, pool, self._units.base) if gauge.passes(stage)), None)
            if end is not None and end is not small:
                end = trimmed(gauge, self._units, end, LAST, None)
            self._ends[signature] = None if end is None else self._finished(gauge, end)
        return self._ends[signature]

    def _finished(self, gauge: Gauge, program: Rows) -> Rows:
        return self._apply(simplest, minimal(gauge, self._units, program, None))

    def _apply(self, algorithm: Callable[..., Rows], program: Rows) -> Rows:
        return algorithm(self._evaluator, self._units.within(program), self._budget, None)

    def _distinct(self, ends: list[tuple[str, Rows]]) -> list[Found]:
        by_paths: dict[tuple[AttentionPath, ...], tuple[Rows, list[str]]] = {}
        for name, program in ends:
            by_paths.setdefault(tuple(self._units.paths(program)), (program, []))[1].append(name)
        found = [self._found(program, tuple(names)) for program, names in by_paths.values()]
        return sorted(found, key=lambda one: (one.paths, one.heads, one.mse))

    def _found(self, program: Rows, orders: tuple[str, ...]) -> Found:
        paths = self._units.paths(program)
        heads = len({(path.layer, path.head) for path in paths})
        return Found(program, len(paths), heads, self._evaluator.mse([program])[0], orders)

    def _smallest(self, found: list[Found]) -> tuple[list[Found], Minimality]:
        """See whether a part of the first circuit holds the bar; as long as one does, it comes first."""
        if not found:
            return found, "none"
        first = found[0]
        part = self._apply(smallest, first.program)
        if part is first.program:
            return found, tried(len(self._units.on(part)), self._budget)
        end = self._finished(Gauge.confirming(self._evaluator, self._budget), part)
        return self._smallest([self._found(end, (f"part of {first.orders[0]}",)), *found])

    def _plain(self, program: Rows | None) -> list[dict[str, Any]] | None:
        return None if program is None else to_json(program, self._evaluator.problem)

    def _read(self, program: Any) -> Rows:
        return dict.fromkeys(self._evaluator.rows, UNIFORM) | from_json(program, self._evaluator.problem)

    def _generator(self, purpose: str) -> torch.Generator:
        return torch.Generator().manual_seed(derive_seed(self._seed, "circuit search", purpose))
