"""The strict procedure in several orders, with each filling of other rows. The best result comes first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.form import IDENTITY, UNIFORM, ZERO, Form
from hopscope.circuits.evaluate.programs import from_json, to_json
from hopscope.circuits.journal import Journal
from hopscope.circuits.search.config import SearchConfig
from hopscope.circuits.search.gauge import Gauge
from hopscope.circuits.search.imposed import Imposed
from hopscope.circuits.search.strict import Strict
from hopscope.circuits.search.units import Units
from hopscope.problem.counter import derive_seed

FILLS: dict[str, Form] = {"zero": ZERO, "uniform": UNIFORM, "identity": IDENTITY}
"""The ways to fill the rows of a useful head that are no path. The paper does not say which it uses."""


@dataclass(frozen=True)
class StrictOrders:
    """The strict procedure on one model.

    Attributes:
        evaluator: the model, and the sequences that decide in the end.
        units: the model's rows, and the hypotheses about them.
        config: what the search may spend; with one order, only the best filling is tried, by least cost; with more,
            every filling and random orders.
        seed: the seed of the random orders.
        journal: follows the search, and remembers what is finished.
    """

    evaluator: Evaluator
    units: Units
    config: SearchConfig
    seed: int
    journal: Journal = field(default_factory=Journal)

    def run(self) -> list[Imposed]:
        """What all orders ended in, sorted by: low enough, delivering by theory, few paths, few heads, low loss.

        On all sequences, no path can be taken away from the first. Empty if the model's own loss is too high.
        """
        if float(self.evaluator.own.mean()) > self.config.max_loss:
            return []
        ends = self._ends()
        gauge = Gauge.confirming(self.evaluator, self.config)
        search = Strict(gauge, self.units)
        scores = search.scores(ends)

        def merit(number: int) -> tuple[bool, bool, int, int, float]:
            end, score = ends[number], scores[number]
            return score > gauge.max_loss, not search.delivers(end.paths), len(end.paths), len(end.useful), score

        first, *others = (ends[number] for number in sorted(range(len(ends)), key=merit))
        first = search.one_by_one(first, gauge.max_loss)
        return [first, *others]

    def _ends(self) -> list[Imposed]:
        """What every order ended in."""
        search = Strict(Gauge.scanning(self.evaluator, self.config), self.units)
        every = [search.imposed(ZERO)]
        every += [replace(every[0], fill=fill) for fill in FILLS.values() if fill != ZERO]
        scores = search.scores(every)
        best = scores.index(min(scores))
        orders = {f"strict-{list(FILLS)[best]}": every[best]}
        if self.config.orders > 1:
            orders |= {f"strict-{name}": one for name, one in zip(FILLS, every, strict=True)}
            orders |= {f"strict-random-{number}": every[best] for number in range(1, self.config.orders)}
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
