"""What a search may spend: loss, sequences, ways. Every threshold of the searches stands here and is explained once.

Changes cost little alone and much together, so the room between the model's own loss and the bar is handed out in
shares. A circuit that uses all of it stands at the bar, where fresh sequences decide by chance; so a search spends
half. Only then, and only for sure, may a row go that the bar itself does not need: else the circuit would be excessive.
The certificate asks for no more than the bar.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hopscope.checks import check_count
from hopscope.errors import InputError

ROOM = 0.5
"""Of the room between the model's loss and the bar, what a search may spend."""

HEADS, ROWS, LAST = 0.3, 0.6, 0.95
"""Of that: what may be spent when whole heads have gone, when single rows have, and when no more can. Forms may use the
rest. Without shares the heads, tried first, would use all the room, and cheaper rows could no longer go."""

SCAN_DOUBT, CONFIRM_DOUBT = 2.0, 3.0
"""Standard errors added to a loss, on the first sequences and on all, so that what passes here passes on fresh ones."""

HOPELESS = 4.0
"""Standard errors by which the cost of a change on few sequences must exceed what is left for it to be ruled out."""

NEARLY_AS_GOOD = 0.25
"""Of the room left, by how much the loss of a simpler form may exceed that of the best one."""

ROUGHLY = 1.5
"""Costs seen on few sequences are rough: what looks dearer than the room by this factor may still fit."""

FREE = 0.02
"""Of the room left, what a path may cost that counts as costing nothing."""

AMONG_OTHERS = 0.1
"""Of the bar, what a row's form may cost where the other rows make their own patterns. The certificate refuses one
whose row would do better, by twice that, looking elsewhere."""

CLEAR = 0.5
"""Mean weight on one role from which a row's map is clear."""

JITTER = 2.0
"""Spread of the logarithm of the factors that a random order puts on costs."""

JITTERED = 0.1
"""Of the bar, what is added to costs before that, so that among what costs little any may go first."""

FEW = 8
"""Sequences on which subsets are seen first."""

Effort = Literal["quick", "thorough"]


@dataclass(frozen=True)
class Budget:
    """How a search is done.

    Args:
        bar: the loss a circuit may have at most; the paper's 0.05.
        orders: ways down, the first by least cost, the others at random.
        growing: ways up.
        sequences: sequences behind most decisions.
        confirming: sequences behind the last ones; the former are among them.
        deciding: others, that decide where those leave it open whether a loss is within a limit.
        every_subset: up to how many rows every subset of a circuit is tried; more take long, 13 some 8,000 trials.
        pairs: up to how many rows every circuit is tried that has one or two less; 30 take some 500 trials.
        most_rows: from how many rows on, when what is easily spared is off, the search is given up: what is left would
            be no small circuit, and takes many minutes. `None` for never.

    Raises:
        InputError: a value out of range.
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
        """Sequences that say in which order changes are tried, and which are hopeless."""
        return max(FEW, self.sequences // 4)

    @classmethod
    def of(cls, effort: Effort | Budget) -> Budget:
        """The budget that an effort stands for; a budget stands for itself.

        Raises:
            InputError: no such effort.
        """
        if isinstance(effort, Budget):
            return effort
        if effort not in EFFORTS:
            raise InputError(f"effort must be {' or '.join(EFFORTS)}, got {effort!r}")
        return EFFORTS[effort]


EFFORTS: dict[str, Budget] = {
    "quick": Budget(orders=1, growing=1, every_subset=6, pairs=12, most_rows=64),
    "thorough": Budget(),
}
"""`quick` finds one small circuit or gives up, `thorough` the different ones that a model holds."""
