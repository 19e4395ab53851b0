"""What a search may spend: loss, sequences, orders. The thresholds of the searches are defined and explained here.

Changes cost little alone and much together, so the slack between the model's own loss and the threshold is spent in
shares. The loss of a circuit that uses all of it lies at the threshold, where fresh sequences decide by chance; so a
search spends half. After that, a row is removed only if the loss surely stays below the threshold without it: else the
circuit would have superfluous rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from hopscope.checks import check_count, check_seed, make_plain
from hopscope.errors import InputError
from hopscope.problem.counter import derive_seed

SLACK = 0.5
"""The share of the slack between the model's loss and the threshold that a search may spend."""

HEADS, ROWS, LAST = 0.3, 0.6, 0.95
"""The shares of that which may be spent once whole heads are removed, once single rows are, and once no more can be.
Patterns that are imposed may use the rest. Without shares the heads, tried first, would use all the slack, and cheaper
rows would stay."""

SCAN_MARGIN, CONFIRM_MARGIN = 2.0, 3.0
"""How many standard errors are added to a loss, on the first sequences and on all, so that fresh ones pass too."""

HOPELESS = 4.0
"""A change is ruled out if its cost on few sequences exceeds what is left by so many standard errors."""

NEARLY_AS_GOOD = 0.25
"""How far the loss of a simpler pattern may exceed that of the best one, as a share of the slack left."""

ROUGHLY = 1.5
"""Costs on few sequences are rough: what seems to cost this factor more than the slack may still fit."""

FREE = 0.02
"""What a path may cost and still count as costing nothing, as a share of the slack left."""

AMONG_OTHERS = 0.1
"""What an imposed pattern may cost where the other rows make their own, as a share of the threshold. A check refuses a
pattern whose row would do better, by twice that, with another key."""

CLEAR = 0.5
"""A row's map is clear if it has at least this mean weight on one role."""

JITTER = 2.0
"""Standard deviation of the logarithm of the random factors by which a random order multiplies costs."""

JITTERED = 0.1
"""What is added to costs before that, as a share of `max_loss`, so that any change that costs little may go first."""

FEW = 8
"""The fewest sequences that anything is measured on; parts of a circuit are measured on so many first."""


@dataclass(frozen=True)
class SearchBudget:
    """How much work a search does.

        >>> hs.SearchConfig(hs.SearchBudget(orders=1, growing=1)).budget.sequences
        64

    Attributes:
        orders: how many ways down are tried, the first by least cost, the others at random.
        growing: how many ways up are tried.
        sequences: how many sequences most decisions are made on.
        confirming: how many sequences the last decisions are made on; the former are among them.
        deciding: how many other sequences decide where those leave it open whether a loss is within a limit.
        every_subset: every subset of a circuit is tried if it has at most so many rows; 13 rows take some 8,000 trials.
        pairs: every part one or two rows smaller is tried if it has at most so many; 30 rows take some 500 trials.
        margin: how many standard errors are added to a loss in the last decisions.
        estimating: how many sequences gradients are estimated on, in a model of up to 12 layers.
        most_rows: the search is given up if more rows are left when what is easily spared is off: the result would be
            no small circuit, and would take many minutes. `None` for never.

    Raises:
        InputError: a number is too small, or larger than one that it must not exceed.
    """

    orders: int = 3
    growing: int = 2
    sequences: int = 64
    confirming: int = 256
    deciding: int = 2048
    every_subset: int = 10
    pairs: int = 30
    margin: float = CONFIRM_MARGIN
    estimating: int = 64
    most_rows: int | None = None

    def __post_init__(self) -> None:
        make_plain(self)
        least = {"orders": 1, "growing": 0, "sequences": FEW, "confirming": self.sequences, "deciding": self.confirming}
        for name, lowest in {**least, "every_subset": 0, "pairs": 0, "estimating": FEW}.items():
            check_count(name, getattr(self, name), lowest)
        if not 0 < self.margin < math.inf:
            raise InputError(f"margin must be above 0 and finite, got {self.margin!r}")
        if self.most_rows is not None:
            check_count("most_rows", self.most_rows)

    @property
    def rough(self) -> int:
        """How many sequences decide in which order changes are tried, and which are hopeless."""
        return max(FEW, self.sequences // 4)

    def smallest(self, rows: int) -> int:
        """How many rows the smallest parts have that are tried of a circuit of so many rows."""
        return 0 if rows <= self.every_subset else max(rows - 2, 0) if rows <= self.pairs else rows


Effort = Literal["quick", "thorough"]

BUDGETS: dict[Effort, SearchBudget] = {
    "quick": SearchBudget(orders=1, growing=1, every_subset=6, pairs=12, most_rows=64),
    "thorough": SearchBudget(),
}
"""How much work each effort is."""


@dataclass(frozen=True)
class SearchConfig:
    """How a circuit is searched for.

        >>> hs.SearchConfig("quick", max_loss=0.1).budget.orders
        1

    Args:
        effort: `quick` finds one small circuit or gives up, `thorough` the different ones that a model has; or a
            `SearchBudget`.
        max_loss: the loss that a circuit may have at most; the paper's 0.05.
        seed: the seed of the search's sequences and random orders.

    Raises:
        InputError: a value is out of range.
    """

    effort: Effort | SearchBudget = "thorough"
    max_loss: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        make_plain(self)
        if not isinstance(self.effort, SearchBudget) and self.effort not in list(BUDGETS):
            raise InputError(f"effort must be {' or '.join(BUDGETS)}, got {self.effort!r}")
        number = isinstance(self.max_loss, int | float) and not isinstance(self.max_loss, bool)
        if not number or not 0 < self.max_loss < 0.5:
            raise InputError(f"max_loss must be above 0 and below 0.5, got {self.max_loss!r}")
        check_seed(self.seed)

    @property
    def budget(self) -> SearchBudget:
        """How much work the search does."""
        return self.effort if isinstance(self.effort, SearchBudget) else BUDGETS[self.effort]

    def seed_of(self, order: str) -> int:
        """The seed of a random order of the search."""
        return derive_seed(self.seed, "circuit search", order)

    @classmethod
    def of(
        cls,
        effort: Effort | SearchBudget | SearchConfig | None = None,
        max_loss: float | None = None,
        seed: int | None = None,
    ) -> SearchConfig:
        """A configuration, or that of an effort, with another threshold and seed where these are not None."""
        config = effort if isinstance(effort, SearchConfig) else cls() if effort is None else cls(effort)
        config = config if max_loss is None else replace(config, max_loss=max_loss)
        return config if seed is None else replace(config, seed=seed)
