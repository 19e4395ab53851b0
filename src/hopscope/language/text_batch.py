"""Questions as tokens: the tasks that ask them, and batches of questions with the positions of their roles."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from hopscope.checks import check_count
from hopscope.errors import InputError
from hopscope.problem.counter import derive_seed
from hopscope.problem.prompts import PromptTask
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.text.formulation import PAPER_CHAINS, Extensions
from hopscope.problem.text.questions import Question, formulation, questions
from hopscope.problem.text.tokens import Tokens, tokens

_ORDERS = {"blocks": "deepest-first", "reversed": "shallowest-first"}


@dataclass(frozen=True)
class TextTask:
    """The questions that a model is asked.

    Attributes:
        formulation: a formulation of chains: equations, lives-with or kingdoms.
        hops: D, the number of retrieval steps.
        chains: N, the number of chains.
        extensions: departures from the paper's format.

    Raises:
        InputError: all lines are shuffled together, so no role always comes before another role.
    """

    formulation: str
    hops: int
    chains: int = PAPER_CHAINS
    extensions: Extensions = field(default_factory=Extensions)

    def __post_init__(self) -> None:
        if self.extensions.lines not in _ORDERS:
            raise InputError("lines must be blocks or reversed for circuits, since shuffled lines give roles no order")

    @property
    def name(self) -> str:
        """The task's name, for files."""
        changed = f"-{self.chains}-chains" if self.chains != PAPER_CHAINS else ""
        changed += "".join(f"-{name}-{value}" for name, value in sorted(self.extensions.changed().items()))
        return f"{self.formulation}-{self.hops}-hops{changed}"

    @property
    def problem(self) -> RetrievalProblem:
        """The retrieval problem that the text poses, in which only x{D} is asked for."""
        order = _ORDERS[self.extensions.lines]
        return RetrievalProblem(hops=self.hops, chains=self.chains, order=order, curriculum=False)

    def questions(self, count: int, seed: int) -> list[Question]:
        """Return the first `count` questions of a seed."""
        return questions(self.formulation, self.hops, count, seed, self.chains, self.extensions)

    @property
    def thrifty(self) -> bool:
        """Whether the task is for pretrained models, whose passes are so slow that only a few are affordable."""
        return self.extensions.form != "instruction"

    @property
    def floor(self) -> float:
        """The highest accuracy that is possible without retrieval."""
        (question,) = self.questions(1, 0)
        return max(question.guess, question.shortcut)

    def tokens(self, tokenizer: Any, count: int, seed: int, purpose: str = "") -> list[Tokens]:
        """Return the first `count` questions of a seed, for a purpose, as tokens with their roles.

        Searches and other purposes have no question in common; a hash of its prompt decides where a question belongs.
        """
        if not purpose:
            return [tokens(question, tokenizer) for question in self.questions(count, seed)]
        drawn = self.questions(3 * count + 64, derive_seed(seed, purpose))
        searched = purpose.startswith("circuit search")
        half = [question for question in drawn if int(question.prompt_hash, 16) % 2 == searched]
        return [tokens(question, tokenizer) for question in half[:count]]


LanguageTask = TextTask | PromptTask
"""The task of a language model: the questions of a formulation, or prompts of your own."""


def text(name: str, hops: int | None = None, extensions: Extensions | None = None) -> TextTask:
    """Return the task of answering questions in one formulation, in the paper's format by default.

        >>> len(hs.text("equations", hops=2).questions(count=5, seed=0))
        5

    Args:
        name: equations, lives-with or kingdoms.
        hops: D, the number of retrieval steps; by default that of the paper.
        extensions: departures from the paper's format.

    Raises:
        InputError: the formulation does not exist, or does not allow these hops or extensions.
    """
    form, extensions = formulation(name), Extensions() if extensions is None else extensions
    hops = form.paper_hops if hops is None else hops
    form.check(hops, PAPER_CHAINS, extensions)
    return TextTask(form.name, hops, extensions=extensions)


@dataclass(frozen=True)
class TextBatch:
    """Questions as tokens, padded on the right to one length; no question attends to the padding.

    Attributes:
        inputs: the tokens.
        role: the role of every position.
        chain: the chain of every position; -1 for words of no chain.
        place: the position of every role of every chain; -1 if the role does not occur.
        answer: the last position of the question, after which the answer follows.
        candidates: the tokens of the acceptable answers.
        right: the index of the right candidate, from 0.
    """

    inputs: Int[Tensor, "batch pos"]
    role: Int[Tensor, "batch pos"]
    chain: Int[Tensor, "batch pos"]
    place: Int[Tensor, "batch chain role"]
    answer: Int[Tensor, " batch"]
    candidates: Int[Tensor, "batch candidate"]
    right: Int[Tensor, " batch"]

    def __getitem__(self, index: slice | list[int]) -> TextBatch:
        """Return some of the questions."""
        return TextBatch(*(getattr(self, field.name)[index] for field in fields(self)))

    def to(self, device: torch.device) -> TextBatch:
        """Return the same questions on a device."""
        return TextBatch(*(getattr(self, field.name).to(device) for field in fields(self)))


def text_batch(task: LanguageTask, tokenizer: Any, count: int, seed: int, purpose: str = "") -> TextBatch:
    """Return the first `count` questions of a seed, for a purpose, as tokens; fewer if your task has fewer prompts.

    Raises:
        InputError: two roles or two answers share a token.
    """
    check_count("the number of questions", count)
    read, names = task.tokens(tokenizer, count, seed, purpose), task.problem.all_roles
    length, chains = max(len(question.ids) for question in read), task.problem.chains

    def filled(rows: list[tuple[int, ...]], value: int) -> Int[Tensor, "batch pos"]:
        return torch.tensor([list(row) + [value] * (length - len(row)) for row in rows])

    place = torch.full((len(read), chains, len(names)), -1)
    for number, question in enumerate(read):
        for position, (role, chain) in enumerate(zip(question.role, question.chain, strict=True)):
            if chain >= 0:
                place[number, chain, role] = position
    return TextBatch(
        inputs=filled([question.ids for question in read], 0),
        role=filled([question.role for question in read], names.index("text")),
        chain=filled([question.chain for question in read], -1),
        place=place,
        answer=torch.tensor([len(question.ids) - 1 for question in read]),
        candidates=torch.tensor([question.candidates for question in read]),
        right=torch.tensor([question.right for question in read]),
    )
