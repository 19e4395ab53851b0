"""Exact mode for a model in this process: the probability that a reply, sampled like any other, gives each answer.

A reply is a walk through a tree of tokens. Every branch whose text may still become acceptable is followed, the most
probable first, with every spelling and whatever white space the answer rule forgives; what ends is read and judged by
the very functions that read and judge a sampled reply. What is left unfollowed is at most `ROOM` of what was found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.benchmark.answers import RULES, hopeful

ROOM = 1e-4
"""The most probability that unfollowed branches may hold, as a share of the acceptable answers found."""
MOST = 400
"""The most branches followed for one question; what is left then is part of its record."""

TokenIds = tuple[int, ...]
NextTokens = Callable[[Sequence[tuple[int, TokenIds]]], Float[Tensor, "branch token"]]
"""The distribution over the next token for branches, each a question's number and the tokens written so far."""


@dataclass
class Tree:
    """The replies to one question: the `weights` found of its acceptable answers, and the branches `open` to follow."""

    acceptable: tuple[str, ...]
    weights: dict[str, float]
    open: list[tuple[float, TokenIds]] = field(default_factory=lambda: [(-1.0, ())])  # the most probable first
    followed: int = 0

    @property
    def left(self) -> float:
        """Probability of the branches not followed."""
        return sum((-branch for branch, _ in self.open), 0.0)

    @property
    def done(self) -> bool:
        """Whether enough is known to stop."""
        return self.followed >= MOST or self.left <= ROOM * sum(self.weights.values())


class Speller:
    """Where a text can go with one more token.

    Args:
        size: the number of tokens in the vocabulary.
        stops: the tokens that end a reply; `by_line`: whether a line break ends one too.
        anchor: some tokens of visible text; a piece is what a token adds behind them.
    """

    def __init__(
        self,
        decode: Callable[[Sequence[int]], str],
        size: int,
        stops: set[int],
        by_line: bool,
        rule: str,
        anchor: TokenIds,
    ) -> None:
        self._decode, self._stops, self._by_line, self._rule = decode, stops, by_line, rule
        # A tokenizer may write its first token in another way (without the space that it stands for).
        self._first = [decode([token]) for token in range(size)]
        before = len(decode(anchor))
        self._later = [decode([*anchor, token])[before:] for token in range(size)]
        self._known: dict[tuple[str, bool, tuple[str, ...]], tuple[dict[str, Tensor], Tensor]] = {}

    def turns(self, tokens: TokenIds, acceptable: tuple[str, ...]) -> tuple[dict[str, Tensor], Tensor]:
        """By answer, the tokens that end a reply which the rule takes for it; and the tokens after which a reply may
        still become acceptable."""
        key = (self._decode(tokens) if tokens else "", bool(tokens), acceptable)
        if key not in self._known:
            self._known[key] = self._turns(*key)
        return self._known[key]

    def _turns(self, text: str, later: bool, acceptable: tuple[str, ...]) -> tuple[dict[str, Tensor], Tensor]:
        ends: dict[str, list[int]] = {}
        more: list[int] = []
        for token, piece in enumerate(self._later if later else self._first):
            whole = text if token in self._stops else text + piece
            if token in self._stops or (self._by_line and "\n" in whole):
                reply = whole.split("\n")[0] if self._by_line else whole
                if (answer := RULES[self._rule](reply, acceptable)) is not None:
                    ends.setdefault(answer, []).append(token)
            elif hopeful(self._rule, whole, acceptable):
                more.append(token)
        return {answer: torch.tensor(those) for answer, those in ends.items()}, torch.tensor(more, dtype=torch.long)


def weigh(
    questions: Sequence[tuple[str, ...]], following: NextTokens, speller: Speller, longest: int, batch: int
) -> list[tuple[dict[str, float], float]]:
    """For each question, given by its acceptable answers, their probabilities, and that of what was not followed.

    A reply has at most `longest` tokens, its end among them; `batch` branches are followed at a time.
    """
    trees = [Tree(acceptable, dict.fromkeys(acceptable, 0.0)) for acceptable in questions]
    while waiting := [(number, tree) for number, tree in enumerate(trees) if not tree.done]:
        chosen: list[tuple[int, float, TokenIds]] = []
        for number, tree in waiting:
            for _ in range(min(max(1, batch // len(waiting)), len(tree.open))):
                chosen.append((number, *heappop(tree.open)))
                if tree.done:
                    break
        for start in range(0, len(chosen), batch):
            part = chosen[start : start + batch]
            chances = following([(number, tokens) for number, _, tokens in part])
            for (number, branch, tokens), chance in zip(part, chances, strict=True):
                _grow(trees[number], -branch, tokens, chance, speller, longest)
    return [(tree.weights, tree.left) for tree in trees]


def _grow(
    tree: Tree, branch: float, tokens: TokenIds, chance: Float[Tensor, " token"], speller: Speller, longest: int
) -> None:
    """Take in what the model says after a branch."""
    tree.followed += 1
    ends, more = speller.turns(tokens, tree.acceptable)
    for answer, those in ends.items():
        tree.weights[answer] += branch * float(chance[those].sum())
    if len(tokens) + 1 < longest:
        for token, share in zip(more.tolist(), chance[more].tolist(), strict=True):
            if share > 0:
                heappush(tree.open, (-branch * share, (*tokens, token)))
