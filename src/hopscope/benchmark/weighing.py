"""Exact mode for a model in this process: the probability that a reply, sampled like any other, gives each answer.

A reply is a walk through a tree of tokens. Branches whose text may still become acceptable are followed, the most
probable first, with every spelling and whatever white space the answer rule forgives; what ends is judged by the very
functions that judge a sampled reply. What is not followed is counted, and is part of the question's record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.benchmark.answers import RULES, hopeful, without_frame

TokenIds = tuple[int, ...]
NextTokens = Callable[[Sequence[int], Sequence[TokenIds]], Float[Tensor, "branch token"]]
"""The distribution over the next token behind branches of one length: the number of each one's question, its tokens."""


BRANCHES = 4
"""How many branches of a question are followed at a time, or more where few questions are left."""


class Thoroughness(NamedTuple):
    """When a question is done: unfollowed branches hold at most `share` of the acceptable answers found, or `most`
    branches were followed."""

    share: float
    most: int


SPELLINGS = Thoroughness(0.02, 16)
"""The usual spellings of the answers: a few passes for a question."""
WHOLE_TREE = Thoroughness(1e-4, 400)
"""All that matters at all."""


@dataclass
class Tree:
    """The replies to one question: the `weights` found of its acceptable answers, and the branches `open` to follow."""

    acceptable: tuple[str, ...]
    until: Thoroughness
    weights: dict[str, float]
    open: list[tuple[float, TokenIds]] = field(default_factory=list)  # the most probable first
    left: float = 1.0
    followed: int = 0

    @property
    def done(self) -> bool:
        """Whether enough is known to stop."""
        return not self.open or self.followed >= self.until.most or self.left <= self.until.share * self.found

    @property
    def found(self) -> float:
        """Probability of the acceptable answers found."""
        return sum(self.weights.values())

    def chosen(self, most: int) -> list[tuple[float, TokenIds]]:
        """Up to so many branches to follow now, none of which is too improbable to matter, but for the first."""
        branches: list[tuple[float, TokenIds]] = []
        least = self.until.share * (self.found + self.left) / 2  # what is improbable now may never have to be followed
        while len(branches) < most and not self.done and (not branches or -self.open[0][0] >= least):
            branch, tokens = heappop(self.open)
            branches.append((-branch, tokens))
            self.followed += 1
            self.left += branch
        return branches

    def grow(self, branch: float, tokens: TokenIds, chance: Float[Tensor, " token"], speller: Speller) -> None:
        """Take in what the model says behind a branch of some probability."""
        ends, more = speller.turns(tokens, self.acceptable)
        for answer, those in ends.items():
            self.weights[answer] += branch * float(chance[those].sum())
        for token, share in zip(more.tolist(), chance[more].tolist(), strict=True):
            if share > 0:
                heappush(self.open, (-branch * share, (*tokens, token)))
                self.left += branch * share


class Speller:
    """Where a text can go with one more token.

    `stops` end a reply, and `by_line` a line break too; it has at most `longest` tokens. A piece is what a token adds
    behind the visible tokens `anchor`.
    """

    def __init__(
        self,
        decode: Callable[[Sequence[int]], str],
        size: int,
        stops: set[int],
        by_line: bool,
        rule: str,
        anchor: TokenIds,
        longest: int,
    ) -> None:
        self._decode, self._stops, self._by_line, self._rule, self._longest = decode, stops, by_line, rule, longest
        # A tokenizer may write its first token in another way (without the space that it means).
        before = len(decode(anchor))
        first, later = [decode([t]) for t in range(size)], [decode([*anchor, t])[before:] for t in range(size)]
        self._pieces = {False: first, True: later}
        self._cores = {place: [without_frame(rule, piece) for piece in self._pieces[place]] for place in (False, True)}
        self._usable: dict[tuple[bool, tuple[str, ...]], list[int]] = {}
        self._known: dict[tuple[str, bool, bool, tuple[str, ...]], tuple[dict[str, Tensor], Tensor]] = {}

    def turns(self, tokens: TokenIds, acceptable: tuple[str, ...]) -> tuple[dict[str, Tensor], Tensor]:
        """By answer, the tokens that end a reply which the rule takes for it; and the tokens after which a reply may
        still become acceptable."""
        last = len(tokens) + 1 >= self._longest
        key = (self._decode(tokens) if tokens else "", bool(tokens), last, acceptable)
        if key not in self._known:
            self._known[key] = self._turns(*key)
        return self._known[key]

    def _turns(
        self, text: str, later: bool, last: bool, acceptable: tuple[str, ...]
    ) -> tuple[dict[str, Tensor], Tensor]:
        ends: dict[str, list[int]] = {}
        more: list[int] = []
        for token in self._candidates(later, acceptable):
            whole = text if token in self._stops else text + self._pieces[later][token]
            if token in self._stops or (self._by_line and "\n" in whole):
                reply = whole.split("\n")[0] if self._by_line else whole
                if (answer := RULES[self._rule](reply, acceptable)) is not None:
                    ends.setdefault(answer, []).append(token)
            elif not last and hopeful(self._rule, whole, acceptable):
                more.append(token)
        return {answer: torch.tensor(those) for answer, those in ends.items()}, torch.tensor(more, dtype=torch.long)

    def _candidates(self, later: bool, acceptable: tuple[str, ...]) -> list[int]:
        """The tokens that end a reply, or that the text of an answer can be made of."""
        key = (later, acceptable)
        if key not in self._usable:
            answers = "\0".join(without_frame(self._rule, answer) for answer in acceptable)
            self._usable[key] = [
                token
                for token, core in enumerate(self._cores[later])
                if core in answers or token in self._stops or (self._by_line and "\n" in self._pieces[later][token])
            ]
        return self._usable[key]


def weigh(
    questions: Sequence[tuple[str, ...]],
    first: Float[Tensor, "question token"],
    following: NextTokens,
    speller: Speller,
    until: Thoroughness,
    batch: int,
) -> list[tuple[dict[str, float], float]]:
    """For each question, given by its acceptable answers, their probabilities, and that of what was not followed.

    `first` is the distribution over the first token of a reply to each; up to `batch` branches are followed at a time.
    """
    trees = [Tree(acceptable, until, dict.fromkeys(acceptable, 0.0)) for acceptable in questions]
    for tree, chance in zip(trees, first, strict=True):
        tree.left = 0.0
        tree.grow(1.0, (), chance, speller)
    while waiting := [number for number, tree in enumerate(trees) if not tree.done]:
        chosen = [(n, *branch) for n in waiting for branch in trees[n].chosen(max(BRANCHES, batch // len(waiting)))]
        for length in sorted({len(tokens) for _, _, tokens in chosen}):
            alike = [branch for branch in chosen if len(branch[2]) == length]
            for start in range(0, len(alike), batch):
                part = alike[start : start + batch]
                chances = following([number for number, _, _ in part], [tokens for _, _, tokens in part])
                for (number, branch, tokens), chance in zip(part, chances, strict=True):
                    trees[number].grow(branch, tokens, chance, speller)
    return [(tree.weights, max(0.0, tree.left)) for tree in trees]
