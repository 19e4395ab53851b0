"""Exact mode for a model in this process: the probability that a reply, sampled like any other, gives each answer.

A reply is a walk through a tree of tokens. Branches whose text may still become acceptable are followed, the most
probable first, with every spelling and whatever white space the answer rule forgives; what ends is judged by the very
functions that judge a sampled reply. What is not followed is counted, and is part of the question's record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from heapq import heappop, heappush
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.benchmark.answers import RULES, hopeful, without_frame

TokenIds = tuple[int, ...]
NextTokens = Callable[[Sequence[int], Sequence[TokenIds]], Float[Tensor, "branch token"]]
"""The distribution over the next token behind each of some branches, given by the numbers of their questions and by
their tokens, of which all have as many."""
Turns = Callable[[TokenIds, tuple[str, ...]], tuple[dict[str, Tensor], Tensor]]
"""What may follow a branch's tokens, given the acceptable answers: by answer, the tokens that end a reply taken for it;
and the tokens behind which a reply may still become one."""
BRANCHES = 4  # of a question are followed at a time, or more where few questions are left


class Thoroughness(NamedTuple):
    """When a question is done: what is not followed is at most `share` of what was found, or `most` branches were."""

    share: float
    most: int


SPELLINGS = Thoroughness(0.02, 16)  # the usual spellings of the answers: a few passes for a question
WHOLE_TREE = Thoroughness(1e-4, 400)  # all that matters at all


@dataclass
class Tree:
    """The replies to one question.

    Attributes:
        acceptable, until: its acceptable answers, and when it is done.
        weights: the probabilities found of these answers.
        open: a heap of the branches that may be followed, (-probability, tokens); `left` is their probability together.
        followed: how many branches were followed.
    """

    acceptable: tuple[str, ...]
    until: Thoroughness
    weights: dict[str, float]
    open: list[tuple[float, TokenIds]] = field(default_factory=list)
    left: float = 0.0
    followed: int = 0

    @property
    def done(self) -> bool:
        """Whether enough is known to stop."""
        found = sum(self.weights.values())
        return not self.open or self.followed >= self.until.most or self.left <= self.until.share * found

    def chosen(self, most: int) -> list[tuple[float, TokenIds]]:
        """Up to so many branches to follow now, and their probabilities: the first, and others that may matter."""
        branches: list[tuple[float, TokenIds]] = []
        least = self.until.share * (sum(self.weights.values()) + self.left) / 2  # others may never matter
        while len(branches) < most and not self.done and (not branches or -self.open[0][0] >= least):
            negative, tokens = heappop(self.open)
            branches.append((-negative, tokens))
            self.followed += 1
            self.left += negative
        return branches

    def grow(self, branch: float, tokens: TokenIds, chance: Float[Tensor, " token"], turns: Turns) -> None:
        """Add what follows some tokens, of probability `branch`, given the distribution over the next one."""
        ends, more = turns(tokens, self.acceptable)
        for answer, last in ends.items():
            self.weights[answer] += branch * float(chance[last].sum())
        for token, share in zip(more.tolist(), chance[more].tolist(), strict=True):
            if share > 0:
                heappush(self.open, (-branch * share, (*tokens, token)))
                self.left += branch * share


def spelling(
    decode: Callable[[Sequence[int]], str],
    size: int,
    stops: set[int],
    by_line: bool,
    rule: str,
    anchor: TokenIds,
    longest: int,
) -> Turns:
    """What may follow in a reply, with one more of `size` tokens, by an answer rule.

    `stops` end a reply, and `by_line` a line break too; it has at most `longest` tokens. Tokenizers may write the first
    token in another way, without the space that it means, so the others are read behind the tokens `anchor`.
    """
    before = len(decode(anchor))
    first, later = [decode([t]) for t in range(size)], [decode([*anchor, t])[before:] for t in range(size)]
    cores = [[without_frame(rule, piece) for piece in pieces] for pieces in (first, later)]

    @cache
    def candidates(begun: bool, acceptable: tuple[str, ...]) -> list[tuple[int, str]]:
        """The tokens, and their texts, that end a reply or that the text of an answer can be made of."""
        answers = "\0".join(without_frame(rule, answer) for answer in acceptable)
        return [
            (token, piece)
            for token, (piece, core) in enumerate(zip(later if begun else first, cores[begun], strict=True))
            if core in answers or token in stops or (by_line and "\n" in piece)
        ]

    @cache
    def behind(text: str, begun: bool, last: bool, acceptable: tuple[str, ...]) -> tuple[dict[str, Tensor], Tensor]:
        ends = defaultdict[str, list[int]](list)
        more: list[int] = []
        for token, piece in candidates(begun, acceptable):
            whole = text if token in stops else text + piece
            if token in stops or (by_line and "\n" in whole):
                reply = whole.split("\n")[0] if by_line else whole
                if (answer := RULES[rule](reply, acceptable)) is not None:
                    ends[answer].append(token)
            elif not last and hopeful(rule, whole, acceptable):
                more.append(token)
        return {answer: torch.tensor(found) for answer, found in ends.items()}, torch.tensor(more, dtype=torch.long)

    def turns(tokens: TokenIds, acceptable: tuple[str, ...]) -> tuple[dict[str, Tensor], Tensor]:
        return behind(decode(tokens) if tokens else "", bool(tokens), len(tokens) + 1 >= longest, acceptable)

    return turns


def weigh(
    questions: Sequence[tuple[str, ...]],
    first: Float[Tensor, "question token"],
    following: NextTokens,
    turns: Turns,
    until: Thoroughness,
    batch: int,
) -> list[tuple[dict[str, float], float]]:
    """For each question, given by its acceptable answers, their probabilities, and that of what was not followed.

    `first` is the distribution over the first token of a reply to each; up to `batch` branches are followed at a time.
    """
    trees = [Tree(acceptable, until, dict.fromkeys(acceptable, 0.0)) for acceptable in questions]
    for tree, chance in zip(trees, first, strict=True):
        tree.grow(1.0, (), chance, turns)
    while waiting := [number for number, tree in enumerate(trees) if not tree.done]:
        chosen = [(n, *branch) for n in waiting for branch in trees[n].chosen(max(BRANCHES, batch // len(waiting)))]
        for length in sorted({len(tokens) for _, _, tokens in chosen}):
            alike = [branch for branch in chosen if len(branch[2]) == length]
            for start in range(0, len(alike), batch):
                part = alike[start : start + batch]
                chances = following([number for number, _, _ in part], [tokens for _, _, tokens in part])
                for (number, branch, tokens), chance in zip(part, chances, strict=True):
                    trees[number].grow(branch, tokens, chance, turns)
    return [(tree.weights, max(0.0, tree.left)) for tree in trees]
