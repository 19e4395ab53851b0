"""The layout of a problem's sequence: one block of rows per fact, then the questions.

A row is the keys of a fact and its value, side by side. A block holds the row of one fact for each of the N chains,
shuffled. Where a fact has several keys, each chain has distractors there and in the facts that follow from its value:
rows in which one key and the value are other symbols. They are shuffled among the other rows, and counted as chains of
their own that have only these rows. The questions come last and in columns, first symbols before second ones, so that
the N positions that are answered are the last N of the sequence.

    functions, N = 2:  a0 3  a'0 3'  a0'3"  ... | f a  f a | i 0  i 0 | f f i i
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from itertools import count

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from hopscope.problem.retrieval import RetrievalProblem


@dataclass(frozen=True)
class Layout:
    """The blocks of a problem, and what they hold.

    Chains are numbered kind by kind: the N whole ones, then, for each distractor of the graph, the N chains of that
    kind.

    Args:
        problem: the problem that is laid out.
    """

    problem: RetrievalProblem

    @property
    def kinds(self) -> int:
        """Number of kinds of chains: 1, plus one for every distractor."""
        return 1 + len(self.problem.facts.distractors)

    @property
    def rows(self) -> int:
        """Number of chains including distractors: N for each kind."""
        return self.kinds * self.problem.chains

    @property
    def symbols(self) -> int:
        """Number of symbols drawn for a whole chain: its own, then each distractor's other key, value, and so on."""
        facts = self.problem.facts
        return len(facts.symbols) + sum(len(distractor.others) for distractor in facts.distractors)

    @cached_property
    def held(self) -> Int[Tensor, "kind role"]:
        """Index of the symbol, among those drawn for a chain, at each kind and role; -1 where there is no position."""
        facts = self.problem.facts
        whole = [facts.symbols.index(place.symbol) for place in facts.places]
        table, drawn = [whole], len(facts.symbols)
        for distractor in facts.distractors:
            changed = dict(zip(distractor.others, count(drawn), strict=False))
            pairs = zip(facts.places, whole, strict=True)
            table.append([changed.get(at.symbol, own) if at.step in distractor.steps else -1 for at, own in pairs])
            drawn += len(changed)
        return torch.tensor(table)

    @cached_property
    def there(self) -> Bool[Tensor, "block chain"]:
        """Whether a chain has a row in each block: those of fact 1, ..., fact D, then that of the questions."""
        steps = torch.tensor([place.step for place in self.problem.facts.places])
        blocks = [*range(1, self.problem.hops + 1), 0]
        by_kind = torch.stack([(self.held[:, steps == step] >= 0).any(dim=1) for step in blocks])
        return by_kind.repeat_interleave(self.problem.chains, dim=1)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The first position of the blocks of fact 1, ..., fact D, and of the block of the questions."""
        starts, here = [0] * (self.problem.hops + 1), 0
        for step in self.problem.blocks:
            starts[step - 1] = here
            here += int(self.there[step - 1].sum()) * self._width(step)
        starts[-1] = here
        return tuple(starts)

    @cached_property
    def row_numbers(self) -> Int[Tensor, " pos"]:
        """The row of every position, counted from 0 through the sequence: what the position code `pair` numbers."""
        problem, rows = self.problem, list[int]()
        for step in problem.blocks:
            first = rows[-1] + 1 if rows else 0
            rows += [first + row for row in range(int(self.there[step - 1].sum())) for _ in range(self._width(step))]
        first = rows[-1] + 1
        return torch.tensor(rows + list(range(first, first + problem.chains)) * len(problem.facts.known))

    def place(self, order: Int[Tensor, "*batch block chain"]) -> Int[Tensor, "*batch chain role"]:
        """The position of every role of every chain; -1 where there is none.

        Args:
            order: for the blocks of fact 1, ..., fact D, then that of the questions, the rank of each chain, as a
                permutation. Chains without a row in a block are skipped.
        """
        ranks = order.masked_fill(~self.there.to(order.device), self.rows).argsort(dim=-1).argsort(dim=-1)
        at = []
        for place in self.problem.facts.places:
            rank, start = ranks[..., place.step - 1, :], self.starts[place.step - 1]
            if place.step:
                at.append(start + rank * self._width(place.step) + place.member)
            else:
                at.append(start + rank + place.member * self.problem.chains)
        absent = (self.held < 0).repeat_interleave(self.problem.chains, dim=0)
        return torch.stack(at, dim=-1).masked_fill(absent.to(order.device), -1)

    def _width(self, step: int) -> int:
        """Number of positions in a fact's row."""
        return len(self.problem.facts.steps[step - 1].keys) + 1


@cache
def layout(problem: RetrievalProblem) -> Layout:
    """The layout of a problem; the same object each time, so that its properties are computed once."""
    return Layout(problem)
