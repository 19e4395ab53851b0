"""The settings and constants of a search: how much loss it may add, and how many sequences and orders it uses.

The slack is the difference between the threshold and the model's own loss. Each change costs little, but many changes
together cost much, so a search uses the slack in shares. It uses only half of the slack, because a circuit with a loss
at the threshold would pass or fail on fresh sequences by chance. In the end, a row is still removed if the loss without
it surely stays below the threshold, because the row is superfluous.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from hopscope.checks import Count, NonNegative, Range, Seed, Whole, check_count, check_fields
from hopscope.errors import InputError

SLACK = 0.5
"""The share of the slack that a search may use."""

HEADS, ROWS, LAST = 0.3, 0.6, 0.95
"""The shares of the usable slack that may be spent after three steps: removing heads, single rows, and the last rows.
The rest is left for imposing patterns. Without these limits, heads, which are tried first, would use all of the slack,
and rows that cost less would stay."""

SCAN_MARGIN, CONFIRM_MARGIN = 2.0, 3.0
"""The numbers of standard errors added to a loss that was measured on the first sequences, and on all sequences."""

HOPELESS = 4.0
"""A change is ruled out if its cost on few sequences exceeds the remaining slack by this many standard errors."""

NEARLY_AS_GOOD = 0.25
"""How far the loss of a simpler pattern may exceed that of the best pattern, as a share of the remaining slack."""

ROUGHLY = 1.5
"""Costs on few sequences are rough, so a change is still tried if it seems to cost up to this multiple of the slack."""

FREE = 0.02
"""A path costs nothing if the loss rises by at most this share of the remaining slack."""

AMONG_OTHERS = 0.1
"""The highest cost of an imposed pattern when all other rows make their own patterns, as a share of the threshold. The
check `right_keys` fails if another key lowers the loss by more than twice this share."""

CLEAR = 0.5
"""A row is clear if its mean weight on one role is at least this."""

JITTER = 2.0
"""A random order multiplies costs by log-normal factors; this is the standard deviation of their logarithm."""

JITTERED = 0.1
"""The share of `max_loss` added to costs before they are multiplied, so that any cheap change can come first."""

FEW = 8
"""The smallest number of sequences for any measurement; parts of a circuit are first measured on this number."""


@dataclass(frozen=True)
class SearchBudget:
    """How much work a search may do.

        >>> hs.SearchConfig(hs.SearchBudget(orders=1, growing=1)).budget.sequences
        64

    Attributes:
        orders: number of orders in which rows are removed from the model: the cheapest rows first, then random orders.
        growing: number of random orders in which a circuit is grown from no rows.
        sequences: number of sequences for most decisions.
        confirming: number of sequences for the last decisions, including the `sequences` above.
        deciding: number of further sequences, the same for every seed, used if `confirming` do not decide.
        every_subset: all subsets of a circuit are tried if it has at most this many rows (13 rows: 8,192 trials).
        pairs: all parts one or two rows smaller are tried if it has at most this many rows (30 rows: 465 trials).
        margin: number of standard errors that are added to a loss in the last decisions.
        estimating: number of sequences for gradient estimates, in a model of up to 12 layers.
        most_rows: the search is given up if more rows are left after the easy removals, since it would take many
            minutes and not find a small circuit; None to never give up.

    Raises:
        InputError: a number is too small, or exceeds another number that must be at least as large.
    """

    orders: Count = 3
    growing: Whole = 2
    sequences: Annotated[int, Range(FEW)] = 64
    confirming: int = 256
    deciding: int = 2048
    every_subset: Whole = 10
    pairs: Whole = 30
    margin: NonNegative = CONFIRM_MARGIN
    estimating: Annotated[int, Range(FEW)] = 64
    most_rows: Count | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        check_count("confirming", self.confirming, least=self.sequences)
        check_count("deciding", self.deciding, least=self.confirming)
        if not self.margin:
            raise InputError("margin must be above 0, got 0")

    @property
    def rough(self) -> int:
        """The number of sequences that decide in which order changes are tried, and which changes are hopeless."""
        return max(FEW, self.sequences // 4)

    def smallest(self, rows: int) -> int:
        """Return the size of the smallest subsets that the search tries of a circuit with `rows` rows."""
        return 0 if rows <= self.every_subset else max(rows - 2, 0) if rows <= self.pairs else rows


Effort = Literal["quick", "thorough"]

BUDGETS: dict[Effort, SearchBudget] = {
    "quick": SearchBudget(orders=1, growing=1, every_subset=6, pairs=12, most_rows=64),
    "thorough": SearchBudget(),
}
"""The budget of each effort."""


@dataclass(frozen=True)
class SearchConfig:
    """How a circuit is searched for; `effort` may also be a `SearchBudget`.

        >>> hs.SearchConfig("quick", max_loss=0.1).budget.orders
        1

    Args:
        effort: `quick` finds one small circuit or gives up; `thorough` looks for different circuits.
        max_loss: the largest loss that a circuit may have; the default is the paper's.
        seed: the seed of the sequences and random orders of the search.

    Raises:
        InputError: a value is out of range.
    """

    effort: Effort | SearchBudget = "thorough"
    max_loss: float = 0.05
    seed: Seed = 0

    def __post_init__(self) -> None:
        check_fields(self)
        if not isinstance(self.effort, SearchBudget) and self.effort not in list(BUDGETS):
            raise InputError(f"effort must be {' or '.join(BUDGETS)}, got {self.effort!r}")
        number = isinstance(self.max_loss, int | float) and not isinstance(self.max_loss, bool)
        if not number or not 0 < self.max_loss < 0.5:
            raise InputError(f"max_loss must be above 0 and below 0.5, got {self.max_loss!r}")

    @property
    def budget(self) -> SearchBudget:
        """The budget of the search."""
        return self.effort if isinstance(self.effort, SearchBudget) else BUDGETS[self.effort]

    @classmethod
    def of(
        cls,
        effort: Effort | SearchBudget | SearchConfig | None = None,
        max_loss: float | None = None,
        seed: int | None = None,
    ) -> SearchConfig:
        """Return `effort` as a configuration (default: `SearchConfig()`), with `max_loss` and `seed` set if given."""
        config = effort if isinstance(effort, SearchConfig) else cls() if effort is None else cls(effort)
        config = config if max_loss is None else replace(config, max_loss=max_loss)
        return config if seed is None else replace(config, seed=seed)
