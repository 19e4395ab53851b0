"""The retrieval problem of Section 6, as a value: what is asked, not how batches are made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from hopscope.checks import Count, Range, check_fields, check_items, check_type
from hopscope.errors import InputError
from hopscope.problem.roles import role_names, symbol_of, text_role_names

NAMED_ORDERS: dict[str, Callable[[int], tuple[int, ...]]] = {
    "deepest-first": lambda hops: tuple(range(hops, 0, -1)),
    "shallowest-first": lambda hops: tuple(range(1, hops + 1)),
}
"""The two block orders of the paper's prompts: the pairs by number, from 1, in the order of their blocks."""


class Problem(ABC):
    """What a circuit is about: its roles, and what they say of chains; by default nothing.

    Attributes:
        hops, chains: D and N; 0 and 1 where the task has no chains.
    """

    hops: int = 0
    chains: int = 1

    @property
    @abstractmethod
    def all_roles(self) -> tuple[str, ...]:
        """Names of the roles that paths may have, by role number."""

    @property
    @abstractmethod
    def named(self) -> str:
        """The problem's name in captions."""

    @property
    def roles(self) -> tuple[str, ...]:
        """Names of the roles that every drawing shows."""
        return ()

    def fact_of(self, role: int) -> int:
        """The fact that a role is part of, from 1; 0 for none."""
        return 0

    def symbol_of(self, role: int) -> int:
        """The symbol that a role holds, from 0; -1 for none."""
        return -1


@dataclass(frozen=True)
class RetrievalProblem(Problem):
    """N interleaved chains of D hops whose symbols are K-dimensional vectors (Section 6).

    A sequence is D blocks of N pairs, then a block of N queries; the chains are shuffled within each block. Every
    position holds its symbol's vector followed by its position's code.

        >>> hs.RetrievalProblem(hops=3).sequence_length  # N(2D + 1)
        28
        >>> hs.RetrievalProblem(hops=2).roles
        ('x0>', '>x1', 'x1>', '>x2', 'x0?')

    Args:
        hops: D, retrieval steps per chain.
        chains: N, chains interleaved in one sequence.
        symbol_dim: K, the dimension of a symbol's vector.
        order: order of the blocks of pairs: `deepest-first`, pairs (x{D-1}, xD) first, as in Section 3.1 and most
            prompts of Appendix A; `shallowest-first`; or the pairs from 1, first block to last, as in `1,2,4,3` or a
            list. The queries always come last.
        position: what a position code numbers: each `token`, each `pair` (Definition 2) and each query, or nothing
            (`none`: zeros).
        base: the base of the rotary frequencies base^(-2i/K) whose cosines and sines make a code (Su et al. 2023).
        causal: whether a position may attend to earlier positions and itself only.
        curriculum: the implicit curriculum (IC, Section 7): a query's target is x1 ... xD concatenated, not xD alone.
        asked: the hops in a query's target, in rising order and with D among them: 1 and 3 leave x2 out. `None` for
            what `curriculum` says; all hops, and D alone, are recorded as `None` with the `curriculum` that fits.
        position_dim: dimension of a position's code; `None` for K, as in the paper.
        symbols: how symbols are drawn: `gaussian`, standard normal components (the paper), or `unit`, then scaled to
            length sqrt(K), for hand-built transformers that match symbols exactly.

    Raises:
        InputError: a value is out of range.
    """

    hops: Count = 3
    chains: Count = 4
    symbol_dim: Count = 4
    order: str = "deepest-first"
    position: Literal["token", "pair", "none"] = "token"
    base: Annotated[float, Range(1)] = 10_000.0
    causal: bool = True
    curriculum: bool = True
    position_dim: Count | None = None
    symbols: Literal["gaussian", "unit"] = "gaussian"
    asked: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.base == 1:
            raise InputError(f"base must be a number above 1, got {self.base!r}; the paper's is 10000")
        object.__setattr__(self, "order", _order(self.order, self.hops))
        if self.asked is not None:
            self._simplify_asked(check_items("asked", self.asked, f"hops from 1 to {self.hops}, as in ({self.hops},)"))

    def _simplify_asked(self, asked: tuple[Any, ...]) -> None:
        """Check the hops asked for; all hops, or the last alone, become `None` with the `curriculum` that says so."""
        rising = all(type(hop) is int for hop in asked) and [*asked] == sorted({*asked})
        if not (rising and asked and asked[0] >= 1 and asked[-1] == self.hops):
            raise InputError(
                f"asked must be hops from 1 to {self.hops}, rising, {self.hops} the last of them, got {self.asked!r}"
            )
        every, alone = len(asked) == self.hops, len(asked) == 1
        if not (self.curriculum or alone):
            raise InputError(f"curriculum=False asks for x{self.hops} alone, asked={asked!r} for more; leave one out")
        object.__setattr__(self, "asked", None if every or alone else asked)
        object.__setattr__(self, "curriculum", self.curriculum and (every or not alone))

    @property
    def blocks(self) -> tuple[int, ...]:
        """The pairs by number, from 1, in the order of their blocks in the sequence."""
        if self.order in NAMED_ORDERS:
            return NAMED_ORDERS[self.order](self.hops)
        return tuple(int(pair) for pair in self.order.split(","))

    @property
    def order_in_words(self) -> str:
        """The order of blocks, for captions: `deepest first`, or `pairs in the order 1,2,4,3`."""
        return self.order.replace("-", " ") if self.order in NAMED_ORDERS else f"pairs in the order {self.order}"

    @property
    def sequence_length(self) -> int:
        """Positions in a sequence, N(2D + 1)."""
        return self.chains * (2 * self.hops + 1)

    @property
    def code_dim(self) -> int:
        """Dimension of a position's code."""
        return self.symbol_dim if self.position_dim is None else self.position_dim

    @property
    def input_dim(self) -> int:
        """Dimension of the input at a position, symbol and position code together; 2K in the paper."""
        return self.symbol_dim + self.code_dim

    @property
    def target_hops(self) -> tuple[int, ...]:
        """The hops that are asked for: 1 ... D with the implicit curriculum, D alone without, or those of `asked`."""
        return self.asked or tuple(range(1 if self.curriculum else self.hops, self.hops + 1))

    @property
    def target_symbols(self) -> tuple[str, ...]:
        """The symbols that are asked for, among x1 ... xD."""
        return tuple(f"x{hop}" for hop in self.target_hops)

    @property
    def named(self) -> str:
        """The problem's name in captions: `D = 3`."""
        return f"D = {self.hops}"

    @property
    def target_dim(self) -> int:
        """Dimension of a query's target, K per hop asked for: D·K with the implicit curriculum, K without."""
        asked = len(self.asked) if self.asked else self.hops if self.curriculum else 1
        return asked * self.symbol_dim

    @property
    def roles(self) -> tuple[str, ...]:
        """Names of the 2D + 1 roles of a chain, by role number."""
        return role_names(self.hops)

    @property
    def all_roles(self) -> tuple[str, ...]:
        """Names of the roles that paths may have: those of `roles`, and after them, those of text."""
        return text_role_names(self.hops)

    def fact_of(self, role: int) -> int:
        """The pair that a role is part of, from 1; 0 for the question and words of no pair."""
        if role < 2 * self.hops:
            return role // 2 + 1
        return (role - 2 * self.hops + 1) // 2 if 2 * self.hops < role <= 4 * self.hops else 0

    def symbol_of(self, role: int) -> int:
        """The k of the symbol x{k} that a role holds; -1 for words without a symbol."""
        return symbol_of(role, self.hops)


def _order(order: Any, hops: int) -> str:
    """The order, text or a list of numbers, by its name if it has one, else as numbers and commas."""
    if isinstance(order, str) and order in NAMED_ORDERS:
        return order
    text = ",".join(map(str, order)) if isinstance(order, list | tuple) else order
    pairs = text.replace(" ", "").split(",") if isinstance(text, str) else []
    if len(pairs) != hops or {*pairs} != {str(pair) for pair in range(1, hops + 1)}:
        raise InputError(
            f"order must be deepest-first, shallowest-first, or each of the pairs 1 to {hops} once, first to last, "
            f"separated by commas; got {order!r}"
        )
    named = (name for name, blocks in NAMED_ORDERS.items() if blocks(hops) == tuple(map(int, pairs)))
    return next(named, ",".join(pairs))


def check_problem(problem: Any) -> None:
    """Check that a value is a `RetrievalProblem`; an `InputError` where it is not."""
    check_type("problem", problem, RetrievalProblem, "an hs.RetrievalProblem, as hs.RetrievalProblem(hops=3)")
