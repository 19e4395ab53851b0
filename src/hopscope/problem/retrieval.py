"""The retrieval problem of Section 6 and its parameters; `problem.vectors` makes its batches."""

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
"""The two block orders of the paper's prompts; each function returns the pair numbers, from 1, block by block."""


class Problem(ABC):
    """The task that a circuit solves: its roles and, if the task has chains, the fact and symbol of each role.

    Attributes:
        hops: D, the number of retrieval steps; 0 if the task has no chains.
        chains: N, the number of chains in a sequence; 1 if the task has no chains.
    """

    hops: int = 0
    chains: int = 1

    @property
    @abstractmethod
    def all_roles(self) -> tuple[str, ...]:
        """Names of all roles that a path can have, by role number."""

    @property
    @abstractmethod
    def named(self) -> str:
        """The problem's name in captions."""

    @property
    def roles(self) -> tuple[str, ...]:
        """Names of the roles that drawings always show."""
        return ()

    def fact_of(self, role: int) -> int:
        """Return the number of the fact that contains a role, from 1; 0 if no fact contains the role."""
        return 0

    def symbol_of(self, role: int) -> int:
        """Return the number of the symbol that a role holds, from 0; -1 if the role holds no symbol."""
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
        order: order of the blocks of pairs. `deepest-first` puts the pairs (x{D-1}, xD) first, as in Section 3.1 and
            most prompts of Appendix A; `shallowest-first` puts them last. Any other order is the numbers of the pairs,
            from the first block to the last, as in `1,2,4,3` or a list. The queries always come last.
        position: what position codes number: every `token`; every `pair` and query, so that the members of a pair share
            a code (Definition 2); or nothing (`none`), with codes of zeros.
        base: base of the rotary frequencies base^(-2i/K); their cosines and sines make up a code (Su et al. 2023).
        causal: whether a position can attend only to itself and to earlier positions.
        curriculum: the implicit curriculum (IC, Section 7): a query's target is x1 ... xD concatenated, not xD alone.
        asked: the hops in a query's target, in ascending order and ending with D; (1, 3) leaves x2 out. `None` follows
            `curriculum`. All hops, or D alone, are recorded as `None` with the matching `curriculum`.
        position_dim: dimension of a position's code; `None` for K, as in the paper.
        symbols: how symbols are drawn: `gaussian` gives standard normal components (the paper); `unit` also scales each
            vector to length sqrt(K), for hand-built transformers that match symbols exactly.

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
        """Check `asked`; all hops, or the last hop alone, become `None` with the matching `curriculum`."""
        rising = all(type(hop) is int for hop in asked) and [*asked] == sorted({*asked})
        if not (rising and asked and asked[0] >= 1 and asked[-1] == self.hops):
            raise InputError(
                f"asked must be ascending hops from 1 to {self.hops}, ending with {self.hops}, got {self.asked!r}"
            )
        every, alone = len(asked) == self.hops, len(asked) == 1
        if not (self.curriculum or alone):
            raise InputError(f"curriculum=False asks for x{self.hops} only, asked={asked!r} for more; leave one out")
        object.__setattr__(self, "asked", None if every or alone else asked)
        object.__setattr__(self, "curriculum", self.curriculum and (every or not alone))

    @property
    def blocks(self) -> tuple[int, ...]:
        """The numbers of the pairs, from 1, in the order of their blocks in the sequence."""
        if self.order in NAMED_ORDERS:
            return NAMED_ORDERS[self.order](self.hops)
        return tuple(int(pair) for pair in self.order.split(","))

    @property
    def order_in_words(self) -> str:
        """The order of blocks, for captions: `deepest first`, or `pairs in the order 1,2,4,3`."""
        return self.order.replace("-", " ") if self.order in NAMED_ORDERS else f"pairs in the order {self.order}"

    @property
    def sequence_length(self) -> int:
        """Number of positions in a sequence, N(2D + 1)."""
        return self.chains * (2 * self.hops + 1)

    @property
    def code_dim(self) -> int:
        """Dimension of a position's code."""
        return self.symbol_dim if self.position_dim is None else self.position_dim

    @property
    def input_dim(self) -> int:
        """Dimension of the input at a position, which holds a symbol and a position code; 2K in the paper."""
        return self.symbol_dim + self.code_dim

    @property
    def target_hops(self) -> tuple[int, ...]:
        """The hops in a query's target: 1 ... D with the implicit curriculum, D alone without, or those of `asked`."""
        return self.asked or tuple(range(1 if self.curriculum else self.hops, self.hops + 1))

    @property
    def target_symbols(self) -> tuple[str, ...]:
        """The names of the symbols in a query's target, such as `x1`."""
        return tuple(f"x{hop}" for hop in self.target_hops)

    @property
    def named(self) -> str:
        """The problem's name in captions: `D = 3`."""
        return f"D = {self.hops}"

    @property
    def target_dim(self) -> int:
        """Dimension of a query's target, K per hop asked for: D·K with the implicit curriculum, K without it."""
        asked = len(self.asked) if self.asked else self.hops if self.curriculum else 1
        return asked * self.symbol_dim

    @property
    def roles(self) -> tuple[str, ...]:
        """Names of the 2D + 1 roles of a chain, by role number."""
        return role_names(self.hops)

    @property
    def all_roles(self) -> tuple[str, ...]:
        """Names of all roles that a path can have: first those of `roles`, then those that only text has."""
        return text_role_names(self.hops)

    def fact_of(self, role: int) -> int:
        """Return the number of the pair that contains a role, from 1; 0 for the question and words outside pairs."""
        if role < 2 * self.hops:
            return role // 2 + 1
        return (role - 2 * self.hops + 1) // 2 if 2 * self.hops < role <= 4 * self.hops else 0

    def symbol_of(self, role: int) -> int:
        """Return the number k of the symbol x{k} that a role holds; -1 for words without a symbol."""
        return symbol_of(role, self.hops)


def _order(order: Any, hops: int) -> str:
    """Return the name of an order that is given as text or a list, or else its pair numbers, separated by commas."""
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
    """Raise an `InputError` if a value is not a `RetrievalProblem`."""
    check_type("problem", problem, RetrievalProblem, "an hs.RetrievalProblem, as hs.RetrievalProblem(hops=3)")
