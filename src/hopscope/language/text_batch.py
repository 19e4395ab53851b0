"""Questions as tokens: which are asked, the positions of their roles, and the same words in other places or lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from hopscope.circuits.evaluate.counterfactual import Elsewhere, Rewired
from hopscope.errors import InputError
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import first_member, link_role, second_member, text_role, text_role_names
from hopscope.problem.text.formulation import PAPER_CHAINS, Extensions
from hopscope.problem.text.questions import Question, formulation, questions
from hopscope.problem.text.tokens import tokens

_ORDERS = {"blocks": "deepest-first", "reversed": "shallowest-first"}


@dataclass(frozen=True)
class TextTask:
    """Which questions a model is asked.

    Attributes:
        formulation: a formulation of chains: equations, lives-with or kingdoms.
        hops: D.
        chains: N.
        extensions: departures from the paper's format.

    Raises:
        InputError: the lines are in one random order, so that no role always comes before another.
    """

    formulation: str
    hops: int
    chains: int = PAPER_CHAINS
    extensions: Extensions = field(default_factory=Extensions)

    def __post_init__(self) -> None:
        if self.extensions.lines not in _ORDERS:
            raise InputError("lines must be blocks or reversed for circuits: roles need an order, shuffled has none")

    @property
    def problem(self) -> RetrievalProblem:
        """What the text asks, as a retrieval problem in which x{D} alone is asked for."""
        order = _ORDERS[self.extensions.lines]
        return RetrievalProblem(hops=self.hops, chains=self.chains, order=order, curriculum=False)

    def questions(self, count: int, seed: int) -> list[Question]:
        """The first questions of a seed."""
        return questions(self.formulation, self.hops, count, seed, self.chains, self.extensions)


def text(name: str, hops: int | None = None, extensions: Extensions | None = None) -> TextTask:
    """The task of answering questions in one formulation, in the paper's format unless another is given.

        >>> len(hs.text("equations", hops=2).questions(count=5, seed=0))
        5

    Args:
        name: equations, lives-with or kingdoms.
        hops: D; the paper's by default.
        extensions: departures from the paper's format.

    Raises:
        InputError: there is no such formulation, or it cannot be written like that.
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
        place: the position of every role of every chain; -1 where there is none.
        line: the fact that every position is part of, by its place in the text from 1; 0 for all that is no fact.
        answer: the position that the answer follows.
        candidates: the tokens of the acceptable answers.
        right: which of the candidates is right, from 0.
    """

    inputs: Int[Tensor, "batch pos"]
    role: Int[Tensor, "batch pos"]
    chain: Int[Tensor, "batch pos"]
    place: Int[Tensor, "batch chain role"]
    line: Int[Tensor, "batch pos"]
    answer: Int[Tensor, " batch"]
    candidates: Int[Tensor, "batch candidate"]
    right: Int[Tensor, " batch"]

    def __getitem__(self, index: slice) -> TextBatch:
        """A part of the questions."""
        return TextBatch(*(getattr(self, field.name)[index] for field in fields(self)))


def text_batch(task: TextTask, tokenizer: Any, count: int, seed: int) -> TextBatch:
    """The first questions of a seed, as tokens.

    Raises:
        InputError: the tokenizer does not let roles or answers be told apart, or several answers begin alike.
    """
    read = [tokens(question, tokenizer) for question in task.questions(count, seed)]
    length, roles = max(len(question.ids) for question in read), len(text_role_names(task.hops))
    if any(len({*question.candidates}) < len(question.candidates) for question in read):
        raise InputError(f"answers of {task.formulation} begin with the same token; ask for equations")

    def filled(rows: list[tuple[int, ...]], value: int) -> Int[Tensor, "batch pos"]:
        return torch.tensor([list(row) + [value] * (length - len(row)) for row in rows])

    place = torch.full((count, task.chains, roles), -1)
    for number, question in enumerate(read):
        for position, (role, chain) in enumerate(zip(question.role, question.chain, strict=True)):
            if chain >= 0:
                place[number, chain, role] = position
    return TextBatch(
        inputs=filled([question.ids for question in read], 0),
        role=filled([question.role for question in read], text_role(task.hops)),
        chain=filled([question.chain for question in read], -1),
        place=place,
        line=filled([question.line for question in read], 0),
        answer=torch.tensor([len(question.ids) - 1 for question in read]),
        candidates=torch.tensor([question.candidates for question in read]),
        right=torch.tensor([question.right for question in read]),
    )


def lines_elsewhere(batch: TextBatch, pair: int) -> Elsewhere[TextBatch]:
    """Questions in which each chain's line of a pair is in the place of the next chain's.

    Lines move unchanged, token for token; one that is longer than the line it replaces pushes those behind it back.

    Args:
        batch: the questions; the lines of a pair are adjacent.
        pair: the pair whose lines move, from 1.
    """
    source = torch.arange(batch.inputs.shape[1]).repeat(len(batch.inputs), 1)
    block, lines = torch.zeros_like(source, dtype=torch.bool), batch.line.clone()
    for number, (line, place) in enumerate(zip(batch.line, batch.place[..., second_member(pair)], strict=True)):
        of_pair = line[place]
        comes = dict(zip(of_pair.tolist(), of_pair.roll(1).tolist(), strict=True))  # by line, what takes its place
        moved = [(line == comes[own]).nonzero()[:, 0] for own in sorted(comes)]
        block[number], counts = torch.isin(line, of_pair), torch.tensor([len(positions) for positions in moved])
        source[number, block[number]] = torch.cat(moved)
        lines[number, block[number]] = torch.tensor(sorted(comes)).repeat_interleave(counts)
    at = source.argsort(dim=-1)
    return Elsewhere(_moved(batch, source, at, lines), at, block)


def _moved(
    batch: TextBatch, source: Int[Tensor, "batch new"], at: Int[Tensor, "batch pos"], line: Int[Tensor, "batch new"]
) -> TextBatch:
    """Questions whose tokens come from the positions `source` of others, which are now at `at`."""
    place = at.gather(1, batch.place.clamp(min=0).flatten(1)).view_as(batch.place)
    inputs, role, chain = (values.gather(1, source) for values in (batch.inputs, batch.role, batch.chain))
    place = torch.where(batch.place < 0, -1, place)
    return replace(batch, inputs=inputs, role=role, chain=chain, place=place, line=line)


def words_rewired(batch: TextBatch, pair: int, by: int = 1) -> Rewired[TextBatch]:
    """Questions in which each chain's line of a pair has the value of another chain's.

    A value moves token for token, with what links it to its name; one that is longer than the value it replaces pushes
    those behind it back.

    Args:
        batch: the questions.
        pair: the pair whose values are others, from 1.
        by: how many chains further on that chain is, among those with a value; 0 for the questions as they are.
    """
    value, hops, moved = second_member(pair), (batch.place.shape[-1] - 3) // 4, []
    for line, place in zip(batch.line.tolist(), batch.place.tolist(), strict=True):
        moved.append(_with_others(line, [_value_of(line, of, pair) for of in place if of[value] >= 0], by))
    source, at, lines = (torch.tensor(column) for column in zip(*moved, strict=True))
    rewired = _moved(batch, source, at, lines)
    moves = rewired.place[..., [link_role(pair, hops), value]]
    sequence, number, _ = (moves >= 0).nonzero(as_tuple=True)
    rewired.chain[sequence, moves[moves >= 0]] = number
    return Rewired(rewired, at)


def _with_others(line: list[int], values: Sequence[range], by: int) -> tuple[list[int], list[int], list[int]]:
    """A question in which each value is the one so many on.

    Returns:
        For every position the position before of its token; for every position before, where its part is now (the last
        tokens of two values are the same part, and so on from there); and the line of every position.
    """
    turn = by % max(1, len(values))
    others = {value.start: (value, new) for value, new in zip(values, [*values[turn:], *values[:turn]], strict=True)}
    source, lines, at, start = list[int](), list[int](), [0] * len(line), 0
    while start < len(line):
        own, new = others.get(start, (range(start, start + 1), range(start, start + 1)))
        for position in own:
            at[position] = len(source) + max(0, len(new) - (own.stop - position))
        source += new
        lines += [line[start]] * len(new)
        start = own.stop
    return source, at, lines


def _value_of(line: list[int], place: list[int], pair: int) -> range:
    """The positions of the value in a chain's line of a pair, and of what links it to its name; a tokenizer may cut the
    two in different ways in different lines."""
    last, name = place[second_member(pair)], place[first_member(pair)]
    return range((name if name < last else line.index(line[last]) - 1) + 1, last + 1)
