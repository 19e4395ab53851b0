"""The same search at several bars, and the circuit that stands clearest of its own bar.

Where a row is worth little more than the bar, a circuit with that row depends on where exactly the bar is, and at
another bar the search ends in a smaller or a larger circuit that does not. Which circuit stands clearest is measured on
the search's own sequences: how much does losing the least important row raise the loss, in units of the bar? The
certificate is then made once, at that bar, on sequences that no search saw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.hypotheses import Draft
from hopscope.circuits.journal import Journal
from hopscope.circuits.search.budget import Budget
from hopscope.circuits.search.orders import Orders, Outcome
from hopscope.circuits.search.units import Units
from hopscope.errors import InputError


@dataclass(frozen=True)
class AtBar:
    """What the search at one bar ended in.

    Attributes:
        bar: the loss that its circuit may have at most.
        paths: how many paths its circuit has; 0 if there is none.
        mse: loss of that circuit, its rows making their own patterns, on the search's sequences.
        least: the lowest loss without any one of its rows.
    """

    bar: float
    paths: int = 0
    mse: float = 0.0
    least: float = 0.0

    @property
    def gap(self) -> float:
        """How far `least` lies above `mse`, in units of the bar."""
        return (self.least - self.mse) / self.bar


@dataclass(frozen=True)
class Bars:
    """A search at several bars.

    Attributes:
        budget: the budget at the bar that was chosen.
        outcome: what the search at that bar found.
        tried: what was found at every bar, by rising bar; empty if there was only one.
    """

    budget: Budget
    outcome: Outcome
    tried: tuple[AtBar, ...]


def budgets_at(budget: Budget, bar: float | Sequence[float] | None) -> tuple[Budget, ...]:
    """The budget at one bar, or at several by rising bar; at its own if none is given.

    Raises:
        InputError: there is no bar, a bar is given twice, or one is out of range.
    """
    bars = tuple(bar) if isinstance(bar, list | tuple) else (budget.bar if bar is None else bar,)
    budgets = [replace(budget, bar=one) for one in bars]
    if not bars or len(set(bars)) < len(bars):
        raise InputError(f"bar must be a number or several different ones, got {', '.join(map(str, bars)) or 'none'}")
    return tuple(sorted(budgets, key=lambda one: one.bar))


def search_at(evaluator: Evaluator, units: Units, budgets: Sequence[Budget], seed: int, journal: Journal) -> Bars:
    """Search with each budget and choose the bar with the widest gap, the lowest if several gaps are equal.

    Args:
        evaluator: the model, and the sequences that the search decides on.
        units: the rows that are decided on, and the hypotheses about them.
        budgets: the budgets by rising bar, see `budgets_at`.
        seed: the seed of each search.
        journal: follows the search and remembers what is finished; of several bars, each in a part of its own.
    """
    if len(budgets) == 1:
        return Bars(budgets[0], Orders(evaluator, units, budgets[0], seed, journal).run(), ())
    outcomes = [Orders(evaluator, units, at, seed, _part(journal, at.bar)).run() for at in budgets]
    tried = tuple(_seen(evaluator, units, at.bar, outcome) for at, outcome in zip(budgets, outcomes, strict=True))
    found = [number for number, outcome in enumerate(outcomes) if outcome.found] or [len(budgets) - 1]
    chosen = max(found, key=lambda number: tried[number].gap)
    return Bars(budgets[chosen], outcomes[chosen], tried)


def _part(journal: Journal, bar: float) -> Journal:
    """The part of the journal that is about one bar."""
    part: dict[str, Any] = journal.memory.setdefault(f"bar {bar}", {})
    return Journal(
        lambda stage, done, stages: journal.watch(f"{stage}, bar {bar:g}", done, stages),
        part,
        lambda _: journal.remember(journal.memory),
    )


def _seen(evaluator: Evaluator, units: Units, bar: float, outcome: Outcome) -> AtBar:
    """How clear of its bar the circuit of a search stands."""
    if not outcome.found:
        return AtBar(bar)
    found = outcome.found[0]
    natural = units.natural(found.program)
    without: list[Draft] = [{**natural, row: off} for row in units.on(found.program) for off in units.offs(row)]
    own, *losses = evaluator.mse([natural, *without])
    return AtBar(bar, found.paths, own, min(losses, default=own))
