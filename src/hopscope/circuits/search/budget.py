"""What a search may spend: loss, sequences, orders. The thresholds of the searches are defined and explained here.

Changes cost little alone and much together, so the room between the model's own loss and the bar is handed out in
shares. A circuit that uses all of it stands at the bar, where fresh sequences decide by chance; so a search spends
half. After that, a row is removed only if the bar surely holds without it: else the circuit would have superfluous
rows. The certificate asks for no more than the bar.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hopscope.checks import check_count, make_plain
from hopscope.errors import InputError

ROOM = 0.5
"""The share of the room between the model's loss and the bar that a search may spend."""

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
"""What a row's form may cost where the other rows make their own patterns, as a share of the bar. The certificate
refuses a form whose row would do better, by twice that, looking elsewhere."""

CLEAR = 0.5
"""A row's map is clear if it has at least this mean weight on one role."""

JITTER = 2.0
"""Standard deviation of the logarithm of the random factors by which a random order multiplies costs."""

JITTERED = 0.1
"""What is added to costs before that, as a share of the bar, so that any change that costs little may go first."""

FEW = 8
"""How many sequences subsets are measured on first."""

Effort = Literal["quick", "thorough"]


@dataclass(frozen=True)
class Budget:
    """How a search is done.

        >>> run[0].circuit(effort=hs.Budget(orders=1, growing=0), anew=True).search["orders"]
        1

    Args:
        bar: the loss a circuit may have at most; the paper's 0.05.
        orders: how many ways down are tried, the first by least cost, the others at random.
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

    bar: float = 0.05
    orders: int = 3
    growing: int = 2
    sequences: int = 64
    confirming: int = 256
    deciding: int = 2048
    every_subset: int = 10
    pairs: int = 30
    most_rows: int | None = None

    def __post_init__(self) -> None:
        make_plain(self)
        number = isinstance(self.bar, int | float) and not isinstance(self.bar, bool)
        if not number or not 0 < self.bar < 0.5:
            raise InputError(f"bar must be above 0 and below 0.5, got {self.bar!r}")
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
    def of(cls, effort: Effort | Budget) -> Budget:
        """The budget that an effort stands for; a budget stands for itself.

        Raises:
            InputError: there is no such effort.
        """
        if isinstance(effort, Budget):
            return effort
        if not isinstance(effort, str) or effort not in EFFORTS:
            raise InputError(f"effort must be {' or '.join(EFFORTS)}, got {effort!r}")
        return EFFORTS[effort]


EFFORTS: dict[str, Budget] = {
    "quick": Budget(orders=1, growing=1, every_subset=6, pairs=12, most_rows=64),
    "thorough": Budget(),
}
"""`quick` finds one small circuit or gives up, `thorough` the different ones that a model holds."""
