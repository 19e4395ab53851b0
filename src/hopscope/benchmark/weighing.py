"""Exact mode for a model in this process: the probability that a sampled reply gives each acceptable answer.

A reply is a path through a tree of tokens. Branches whose text may still become acceptable are followed, the most
probable first, with every spelling and all white space that the answer rule allows. The functions that judge sampled
replies also judge the replies found. The probability of branches that are not followed is in the question's record.
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
"""A function that returns the distribution over the next token after each of some branches. Its arguments are the
number of each branch's question and the tokens of each branch; all branches have the same length."""
Turns = Callable[[TokenIds, tuple[str, ...]], tuple[dict[str, Tensor], Tensor]]
"""A function of the tokens of a branch and the acceptable answers. It returns the tokens that end a reply with each
answer, and the tokens after which the reply may still become an answer."""
BRANCHES = 4  # branches of a question that are followed at a time, however many other questions there are


class Thoroughness(NamedTuple):
    """A question is done once open branches have at most `share` of the probability found, or `most` were followed."""

    share: float
    most: int


SPELLINGS = Thoroughness(0.02, 16)  # the usual spellings of the answers: a few passes for a question
WHOLE_TREE = Thoroughness(1e-4, 400)  # all branches that matter


@dataclass
class Tree:
    """The replies to one question.

    Attributes:
        acceptable: the acceptable answers.
        until: the condition for being done.
        weights: the probabilities of the acceptable answers found so far.
        open: a heap of the branches that can be followed, as (-probability, tokens).
        left: the total probability of the branches in `open`.
        followed: number of branches that were followed.
    """

    acceptable: tuple[str, ...]
    until: Thoroughness
    weights: dict[str, float]
    open: list[tuple[float, TokenIds]] = field(default_factory=list)
    left: float = 0.0
    followed: int = 0

    @property
    def done(self) -> bool:
        """Whether `until` is met, or no branch is left."""
        found = sum(self.weights.values())
        return not self.open or self.followed >= self.until.most or self.left <= self.until.share * found

    def chosen(self, most: int) -> list[tuple[float, TokenIds]]:
        """Return up to `most` branches to follow now, the likeliest first, each with its probability."""
        branches: list[tuple[float, TokenIds]] = []
        least = self.until.share * (sum(self.weights.values()) + self.left) / 2  # others may never matter
        while len(branches) < most and not self.done and (not branches or -self.open[0][0] >= least):
            negative, tokens = heappop(self.open)
            branches.append((-negative, tokens))
            self.followed += 1
            self.left += negative
        return branches

    def grow(self, branch: float, tokens: TokenIds, chance: Float[Tensor, " token"], turns: Turns) -> None:
        """Add the continuations of `tokens`, whose probability is `branch`; `chance` is the next-token distribution."""
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
    """Return the function `Turns` for an answer rule and a vocabulary of `size` tokens.

    The tokens `stops` end a reply and, with `by_line`, so does a line break. A reply has at most `longest` tokens. Some
    tokenizers drop the space before the first token of a text, so all other tokens are decoded behind `anchor`.
    """
    before = len(decode(anchor))
    first, later = [decode([t]) for t in range(size)], [decode([*anchor, t])[before:] for t in range(size)]
    cores = [[without_frame(rule, piece) for piece in pieces] for pieces in (first, later)]

    @cache
    def candidates(begun: bool, acceptable: tuple[str, ...]) -> list[tuple[int, str]]:
        """Return the tokens, with their texts, that can end a reply or can be part of an answer."""
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
    """Return, for each question, the probability of each acceptable answer, and that of all branches not followed.

    `questions` holds the acceptable answers of each question. `first` is the distribution over the first token of a
    reply to each question. At most `batch` branches are followed at a time.
    """
    trees = [Tree(acceptable, until, dict.fromkeys(acceptable, 0.0)) for acceptable in questions]
    for tree, chance in zip(trees, first, strict=True):
        tree.grow(1.0, (), chance, turns)
    while waiting := [number for number, tree in enumerate(trees) if not tree.done]:
        chosen = [(n, *branch) for n in waiting for branch in trees[n].chosen(BRANCHES)]
        for length in sorted({len(tokens) for _, _, tokens in chosen}):
            alike = [branch for branch in chosen if len(branch[2]) == length]
            for start in range(0, len(alike), batch):
                part = alike[start : start + batch]
                chances = following([number for number, _, _ in part], [tokens for _, _, tokens in part])
                for (number, branch, tokens), chance in zip(part, chances, strict=True):
                    trees[number].grow(branch, tokens, chance, turns)
    return [(tree.weights, max(0.0, tree.left)) for tree in trees]
