"""The strict procedure in several ways: with each fill, in several orders. The best end comes first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.form import IDENTITY, UNIFORM, ZERO, Form
from hopscope.circuits.programs import from_json, to_json
from hopscope.circuits.search.budget import Budget
from hopscope.circuits.search.gauge import Gauge
from hopscope.circuits.search.imposed import Imposed
from hopscope.circuits.search.journal import Journal
from hopscope.circuits.search.strict import Strict
from hopscope.circuits.search.units import Units
from hopscope.problem.counter import derive_seed

FILLS: dict[str, Form] = {"zero": ZERO, "uniform": UNIFORM, "identity": IDENTITY}
"""What the rows of a useful head hold that are no path. The paper's text does not say."""


@dataclass(frozen=True)
class StrictOrders:
    """The strict procedure on one model.

    Attributes:
        evaluator: the model, and the sequences that decide in the end.
        units: hypotheses about its rows.
        budget: how; one order: the fill that suits best, by least cost; more: every fill, and random orders.
        seed: of the random orders.
        journal: told and remembers.
    """

    evaluator: Evaluator
    units: Units
    budget: Budget
    seed: int
    journal: Journal = field(default_factory=Journal)

    def run(self) -> list[Imposed]:
        """The ends of all orders, in this order: under the bar, delivered by theory, few paths, few heads, low loss.

        Of the first no path can be taken away on all sequences. Empty where the model does not hold the bar itself.
        """
        if float(self.evaluator.own.mean()) > self.budget.bar:
            return []
        ends = self._ends()
        gauge = Gauge.confirming(self.evaluator, self.budget)
        search = Strict(gauge, self.units)
        scores = search.scores(ends)

        def merit(number: int) -> tuple[bool, bool, int, int, float]:
            end, score = ends[number], scores[number]
            return score > gauge.bar, not search.delivers(end.paths), len(end.paths), len(end.useful), score

        first, *others = (ends[number] for number in sorted(range(len(ends)), key=merit))
        first = search.one_by_one(first, gauge.bar)
        return [first, *others]

    def _ends(self) -> list[Imposed]:
        """The end of every order."""
        search = Strict(Gauge.scanning(self.evaluator, self.budget), self.units)
        every = [search.imposed(ZERO)]
        every += [replace(every[0], fill=fill) for fill in FILLS.values() if fill != ZERO]
        scores = search.scores(every)
        best = scores.index(min(scores))
        orders = {f"strict-{list(FILLS)[best]}": every[best]}
        if self.budget.orders > 1:
            orders |= {f"strict-{name}": one for name, one in zip(FILLS, every, strict=True)}
            orders |= {f"strict-random-{number}": every[best] for number in range(1, self.budget.orders)}
        ends = []
        for number, (name, start) in enumerate(orders.items()):
            self.journal.watch(name, number, len(orders))
            generator = self._generator(name) if "random" in name else None
            reduced = partial(self._reduced, search, start, generator)
            end = self.journal.once(name, reduced, self.evaluator)
            program = dict.fromkeys(self.evaluator.rows, UNIFORM) | from_json(end, self.evaluator.problem)
            ends.append(Imposed.read(program, start.fill, start.roles))
        return ends

    def _reduced(self, search: Strict, start: Imposed, generator: torch.Generator | None) -> list[dict[str, Any]]:
        return to_json(search.reduced(start, generator).program, self.evaluator.problem)

    def _generator(self, name: str) -> torch.Generator:
        return torch.Generator().manual_seed(derive_seed(self.seed, "circuit search", name))
