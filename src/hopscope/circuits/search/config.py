"""What a search may spend: loss, sequences, orders. The thresholds of the searches are defined and explained here.

Changes cost little alone and much together, so the slack between the model's own loss and the threshold is spent in
shares. The loss of a circuit that uses all of it lies at the threshold, where fresh sequences decide by chance; so a
search spends half. After that, a row is removed only if the loss surely stays below the threshold without it: else the
circuit would have superfluous rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from hopscope.checks import check_count, check_seed, make_plain
from hopscope.errors import InputError

SLACK = 0.5
"""The share of the room between the model's loss and the threshold (the slack) that a search may spend."""

HEADS, ROWS, LAST = 0.3, 0.6, 0.95
"""The shares of that which may be spent once whole heads are removed, once single rows are, and once no more can be.
Forms may use the rest. Without shares the heads, tried first, would use all the room, and cheaper rows would stay."""

SCAN_DOUBT, CONFIRM_DOUBT = 2.0, 3.0
"""How many standard errors are added to a loss, on the first sequences and on all, so that fresh ones pass too."""

HOPELESS = 4.0
"""A change is ruled out if its cost on few sequences exceeds what is left by so many standard errors."""

NEARLY_AS_GOOD = 0.25
"""How far the loss of a simpler form may exceed that of the best one, as a share of the room left."""

ROUGHLY = 1.5
"""Costs seen on few sequences are rough: what looks dearer than the room by this factor may still fit."""

FREE = 0.02
"""What a path may cost and still count as costing nothing, as a share of the room left."""

AMONG_OTHERS = 0.1
"""What a row's form may cost where the other rows make their own patterns, as a share of the threshold. The certificate
refuses a form whose row would do better, by twice that, looking elsewhere."""

CLEAR = 0.5
"""A row's map is clear if it has at least this mean weight on one role."""

JITTER = 2.0
"""Standard deviation of the logarithm of the random factors by which a random order multiplies costs."""

JITTERED = 0.1
"""What is added to costs before that, as a share of `max_loss`, so that any change that costs little may go first."""

FEW = 8
"""How many sequences subsets are measured on first."""

Effort = Literal["quick", "thorough"]

AS_EFFORT = -1
"""Stands for the value that the effort implies, see `EFFORTS`."""

_SEQUENCES = {"sequences": 64, "confirming": 256, "deciding": 2048}

EFFORTS: dict[str, dict[str, int | None]] = {
    "quick": {"orders": 1, "growing": 1, **_SEQUENCES, "every_subset": 6, "pairs": 12, "most_rows": 64},
    "thorough": {"orders": 3, "growing": 2, **_SEQUENCES, "every_subset": 10, "pairs": 30, "most_rows": None},
}
"""The values that each effort implies."""


@dataclass(frozen=True)
class SearchConfig:
    """How a circuit is searched for.

        >>> hs.SearchConfig("quick", max_loss=0.1).orders
        1

    Args:
        effort: `quick` finds one small circuit or gives up, `thorough` the different ones that a model holds.
        max_loss: the loss that a circuit may have at most; the paper's 0.05.
        seed: the seed of the search's sequences and random orders.
        orders: how many ways down are tried, the first by least cost, the others at random. This and what follows is
            for experts, and by default as the effort implies.
        growing: how many ways up are tried.
        sequences: how many sequences most decisions are made on.
        confirming: how many sequences the last decisions are made on; the former are among them.
        deciding: how many other sequences decide where those leave it open whether a loss is within a limit.
        every_subset: every subset of a circuit is tried if it has at most so many rows; 13 rows take some 8,000 trials.
        pairs: every part one or two rows smaller is tried if it has at most so many; 30 rows take some 500 trials.
        most_rows: the search is given up if more rows are left when what is easily spared is off: the result would be
            no small circuit, and would take many minutes. `None` for never.

    Raises:
        InputError: a value is out of range.
    """

    effort: Effort = "thorough"
    max_loss: float = 0.05
    seed: int = 0
    orders: int = AS_EFFORT
    growing: int = AS_EFFORT
    sequences: int = AS_EFFORT
    confirming: int = AS_EFFORT
    deciding: int = AS_EFFORT
    every_subset: int = AS_EFFORT
    pairs: int = AS_EFFORT
    most_rows: int | None = AS_EFFORT

    def __post_init__(self) -> None:
        make_plain(self)
        if not isinstance(self.effort, str) or self.effort not in EFFORTS:
            raise InputError(f"effort must be {' or '.join(EFFORTS)}, got {self.effort!r}")
        for name, value in EFFORTS[self.effort].items():
            if getattr(self, name) == AS_EFFORT:
                object.__setattr__(self, name, value)
        number = isinstance(self.max_loss, int | float) and not isinstance(self.max_loss, bool)
        if not number or not 0 < self.max_loss < 0.5:
            raise InputError(f"max_loss must be above 0 and below 0.5, got {self.max_loss!r}")
        check_seed(self.seed)
        for name in ("confirming", "deciding"):
            check_count(name, getattr(self, name))
        for name, least in (("orders", 1), ("growing", 0), ("sequences", FEW), ("every_subset", 0), ("pairs", 0)):
            check_count(name, getattr(self, name), least)
        if self.most_rows is not None:
            check_count("most_rows", self.most_rows)
        if self.confirming < self.sequences:
            raise InputError(f"confirming must be at least sequences ({self.sequences}), got {self.confirming}")
        if self.deciding < self.confirming:
            raise InputError(f"deciding must be at least confirming ({self.confirming}), got {self.deciding}")

    @property
    def rough(self) -> int:
        """How many sequences decide in which order changes are tried, and which are hopeless."""
        return max(FEW, self.sequences // 4)

    @classmethod
    def of(
        cls, effort: Effort | SearchConfig = "thorough", max_loss: float | None = None, seed: int | None = None
    ) -> SearchConfig:
        """The configuration for an effort, or a given one, with another threshold and seed where these are given."""
        config = effort if isinstance(effort, SearchConfig) else cls(effort)
        given = {"max_loss": max_loss, "seed": seed}
        return replace(config, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
