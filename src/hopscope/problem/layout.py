"""Where the positions of a problem stand: blocks of rows, a block a fact, then the questions.

A row is the keys of a fact and its value, side by side. A block holds the row of one fact for each of the N chains,
shuffled. Where a fact has several keys each chain has distractors there too, rows in which one key and the value are
other symbols, and in the facts that lead on from that value: they are shuffled among the others, and counted as chains
of their own that have these rows alone. The questions stand last and in columns, first symbols before second ones, so
that the N positions that are asked are the last N of the sequence.

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
    """The blocks of a problem, and what stands in them.

    Chains are numbered kind by kind: the N whole ones, then for each distractor of the graph the N rows of that kind.

    Args:
        problem: whose.
    """

    problem: RetrievalProblem

    @property
    def kinds(self) -> int:
        """Kinds of chains: 1, and one for every distractor."""
        return 1 + len(self.problem.facts.distractors)

    @property
    def rows(self) -> int:
        """Chains, distractors counted: N for each kind."""
        return self.kinds * self.problem.chains

    @property
    def symbols(self) -> int:
        """Symbols drawn for a whole chain: its own, then every distractor's: another key, another value, and so on."""
        facts = self.problem.facts
        return len(facts.symbols) + sum(len(distractor.others) for distractor in facts.distractors)

    @cached_property
    def held(self) -> Int[Tensor, "kind role"]:
        """Which of the symbols drawn for a chain a position of each kind and role holds; -1 where there is none."""
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
        """Whether a chain has a row in the block of fact 1, ..., fact D, and in that of the questions."""
        steps = torch.tensor([place.step for place in self.problem.facts.places])
        blocks = [*range(1, self.problem.hops + 1), 0]
        by_kind = torch.stack([(self.held[:, steps == step] >= 0).any(dim=1) for step in blocks])
        return by_kind.repeat_interleave(self.problem.chains, dim=1)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where the block of fact 1, ..., fact D begins, and where that of the questions does."""
        starts, here = [0] * (self.problem.hops + 1), 0
        for step in self.problem.blocks:
            starts[step - 1] = here
            here += int(self.there[step - 1].sum()) * self._width(step)
        starts[-1] = here
        return tuple(starts)

    @cached_property
    def row_numbers(self) -> Int[Tensor, " pos"]:
        """The row of every position, counted from 0 through the sequence: what the position code `pair` tells."""
        problem, rows = self.problem, list[int]()
        for step in problem.blocks:
            first = rows[-1] + 1 if rows else 0
            rows += [first + row for row in range(int(self.there[step - 1].sum())) for _ in range(self._width(step))]
        first = rows[-1] + 1
        return torch.tensor(rows + list(range(first, first + problem.chains)) * len(problem.facts.known))

    def place(self, order: Int[Tensor, "*batch block chain"]) -> Int[Tensor, "*batch chain role"]:
        """The position of every role of every chain; -1 where there is none.

        Args:
            order: for the block of fact 1, ..., fact D, then the questions: which rank each chain has, a permutation.
                Chains without a row there are passed over.
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
        """Positions of a fact's row."""
        return len(self.problem.facts.steps[step - 1].keys) + 1


@cache
def layout(problem: RetrievalProblem) -> Layout:
    """The layout of a problem; the same object each time, so that what it knows is worked out once."""
    return Layout(problem)
