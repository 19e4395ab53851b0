"""The evaluator of a language model on questions.

The error of an answer is its Brier score among the acceptable answers, that is the squared error of the model's
probabilities: 0 if it is sure and right, 0.75 if it guesses among four, as for vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hopscope.circuits.elsewhere import Elsewhere
from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.form import Program
from hopscope.circuits.language.asked import Scores
from hopscope.errors import InputError
from hopscope.model.edit import Edit, Stream
from hopscope.model.language import LanguageModel
from hopscope.problem.counter import derive_seed
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.roles import second_member, text_role, text_role_names
from hopscope.problem.text.extensions import Extensions
from hopscope.problem.text.formulation import PAPER_CHAINS
from hopscope.problem.text.questions import Question, formulation, questions
from hopscope.problem.text.tokens import tokens
from hopscope.theory.scene import Scene
from hopscope.theory.text_scene import text_layers_needed, text_scene

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
        InputError: the lines are in one random order, so that no role always stands before another.
    """

    formulation: str
    hops: int
    chains: int = PAPER_CHAINS
    extensions: Extensions = field(default_factory=Extensions)

    def __post_init__(self) -> None:
        if self.extensions.lines not in _ORDERS:
            raise InputError("lines must be blocks or reversed for circuits: roles need an order, shuffled has none")

    @classmethod
    def of(cls, name: str, hops: int | None = None, extensions: Extensions | None = None) -> TextTask:
        """The task for a formulation, with the paper's number of hops and format unless others are given.

        Raises:
            InputError: there is no such formulation, or it cannot be written like that.
        """
        form, extensions = formulation(name), Extensions() if extensions is None else extensions
        hops = form.paper_hops if hops is None else hops
        form.check(hops, PAPER_CHAINS, extensions)
        return cls(form.name, hops, extensions=extensions)

    @property
    def problem(self) -> RetrievalProblem:
        """What the text asks, as a retrieval problem in which x{D} alone is asked for."""
        order = _ORDERS[self.extensions.lines]
        return RetrievalProblem(hops=self.hops, chains=self.chains, order=order, curriculum=False)

    def questions(self, count: int, seed: int) -> list[Question]:
        """The first questions of a seed."""
        return questions(self.formulation, self.hops, count, seed, self.chains, self.extensions)


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
        return TextBatch(*(getattr(self, one.name)[index] for one in fields(self)))


def text_batch(task: TextTask, tokenizer: Any, count: int, seed: int) -> TextBatch:
    """The first questions of a seed, as tokens.

    Raises:
        InputError: the tokenizer does not let roles or answers be told apart, or several answers begin alike.
    """
    read = [tokens(question, tokenizer) for question in task.questions(count, seed)]
    length, roles = max(len(one.ids) for one in read), len(text_role_names(task.hops))
    if any(len({*one.candidates}) < len(one.candidates) for one in read):
        raise InputError(f"answers of {task.formulation} begin with one and the same token here; ask for equations")

    def filled(rows: list[tuple[int, ...]], value: int) -> Int[Tensor, "batch pos"]:
        return torch.tensor([list(row) + [value] * (length - len(row)) for row in rows])

    place = torch.full((count, task.chains, roles), -1)
    for number, one in enumerate(read):
        for position, (role, chain) in enumerate(zip(one.role, one.chain, strict=True)):
            if chain >= 0:
                place[number, chain, role] = position
    return TextBatch(
        inputs=filled([one.ids for one in read], 0),
        role=filled([one.role for one in read], text_role(task.hops)),
        chain=filled([one.chain for one in read], -1),
        place=place,
        line=filled([one.line for one in read], 0),
        answer=torch.tensor([len(one.ids) - 1 for one in read]),
        candidates=torch.tensor([one.candidates for one in read]),
        right=torch.tensor([one.right for one in read]),
    )


def lines_elsewhere(batch: TextBatch, pair: int) -> Elsewhere[TextBatch]:
    """Questions in which each chain's line of a pair stands where the next chain's does here.

    Lines move unchanged, token for token; one that is longer than the line it replaces pushes those behind it back.

    Args:
        batch: the questions; the lines of a pair stand together.
        pair: the pair whose lines move, from 1.
    """
    stood = torch.arange(batch.inputs.shape[1]).repeat(len(batch.inputs), 1)
    block, lines = torch.zeros_like(stood, dtype=torch.bool), batch.line.clone()
    for number, (line, place) in enumerate(zip(batch.line, batch.place[..., second_member(pair)], strict=True)):
        here = line[place]
        comes = dict(zip(here.tolist(), here.roll(1).tolist(), strict=True))  # whose line, where each line stands
        moved = [(line == comes[one]).nonzero()[:, 0] for one in sorted(comes)]
        block[number], counts = torch.isin(line, here), torch.tensor([len(one) for one in moved])
        stood[number, block[number]] = torch.cat(moved)
        lines[number, block[number]] = torch.tensor(sorted(comes)).repeat_interleave(counts)
    at = stood.argsort(dim=-1)
    place = at.gather(1, batch.place.clamp(min=0).flatten(1)).view(batch.place.shape)
    there = replace(
        batch,
        inputs=batch.inputs.gather(1, stood),
        role=batch.role.gather(1, stood),
        chain=batch.chain.gather(1, stood),
        place=torch.where(batch.place < 0, -1, place),
        line=lines,
    )
    return Elsewhere(there, at, block)


class TextEvaluator(Evaluator):
    """One language model and some questions.

    Args:
        model: the language model.
        tokenizer: its tokenizer.
        task: what is asked.
        batch: the questions.

    Raises:
        InputError: questions longer than the model has places for, or than all its layers see, or with tokens that it
            does not know.
    """

    def __init__(self, model: LanguageModel, tokenizer: Any, task: TextTask, batch: TextBatch) -> None:
        model.check_length(batch.inputs.shape[1])
        for ids in (batch.inputs, batch.candidates):
            model.check_tokens(tokenizer, ids)
        super().__init__(model, task.problem, batch)
        self._model, self._tokenizer, self.task, self._batch = model, tokenizer, task, batch

    @property
    def transformer(self) -> LanguageModel:
        """The model."""
        return self._model

    @property
    def batch(self) -> TextBatch:
        """The questions."""
        return self._batch

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the 4D + 3 roles of a text, by number."""
        return text_role_names(self.task.hops)

    @property
    def scene(self) -> Scene:
        """What every role of one chain, written as text, knows at the start."""
        return text_scene(self.problem)

    @property
    def layers_needed(self) -> int:
        """The fewest layers that the order of the lines needs, with any number of heads."""
        return text_layers_needed(self.problem)

    def on(self, batch: TextBatch) -> TextEvaluator:
        """The same model on other questions."""
        return TextEvaluator(self._model, self._tokenizer, self.task, batch)

    def fresh(self, sequences: int, seed: int, purpose: str) -> TextEvaluator:
        """The same model on questions that depend on seed and purpose alone."""
        return self.on(text_batch(self.task, self._tokenizer, sequences, derive_seed(seed, purpose)))

    def elsewhere(self, pair: int) -> Elsewhere[Evaluator]:
        """The same model on the same questions, each chain's line of a pair where the next chain's stood."""
        moved = lines_elsewhere(self.batch, pair)
        return Elsewhere(self.on(moved.sequences), moved.at, moved.block)

    def squared_errors(self, x: Stream) -> Float[Tensor, "model_sequence hop"]:
        """Brier scores of the answers."""
        return self._brier(self._among(x))

    @torch.no_grad()
    def plain_errors(self, edit: Edit | None = None) -> Float[Tensor, "sequence hop"]:
        """Brier scores of the whole model at once: without an edit, with the library's own attention."""
        if edit is not None:
            return self.squared_errors(self._model.run(self._model.embed(self.batch.inputs[None]), edit=edit))
        logits = self._model.plain_logits(self.batch.inputs)
        return self._brier(logits[torch.arange(self.sequences), self.batch.answer].gather(-1, self.batch.candidates))

    def with_untrained(self, heads: Sequence[tuple[int, int]], seed: int) -> TextEvaluator:
        """The same questions under a copy of the model in which some heads have initial weights."""
        return TextEvaluator(self._model.with_untrained(heads, seed), self._tokenizer, self.task, self.batch)

    @torch.no_grad()
    def scores(self, program: Program) -> Scores:
        """How well the questions are answered under a program."""
        shares = [one for one in self._shares_for([program]) if isinstance(one, TextEvaluator)] or [self]
        logits = torch.cat([share._logits(program) for share in shares])
        chance = logits.gather(-1, self.batch.candidates).double().log_softmax(-1)
        right = chance.gather(-1, self.batch.right[:, None])[:, 0]
        mass = logits.double().softmax(-1).gather(-1, self.batch.candidates).sum(-1)
        return Scores(
            accuracy=float((chance.argmax(-1) == self.batch.right).double().mean()),
            probability=float(right.exp().mean()),
            log_loss=float(-right.mean()),
            brier=float(self._brier(chance.float()).mean()),
            mass=float(mass.mean()),
        )

    def _logits(self, program: Program) -> Float[Tensor, "question vocabulary"]:
        """Logits of the token that follows every question, under a program."""
        return self._asked(self._model.run(self._model.embed(self.batch.inputs[None]), edit=self.edit(program)))

    def _among(self, x: Stream) -> Float[Tensor, "row candidate"]:
        """Logits of the acceptable answers."""
        candidates = self.batch.candidates.repeat(x.shape[1] // self.sequences, 1)
        return self._asked(x).gather(-1, candidates)

    def _asked(self, x: Stream) -> Float[Tensor, "row vocabulary"]:
        """Logits of the token that follows every question."""
        at = self.batch.answer.repeat(x.shape[1] // self.sequences)
        answers: Tensor = self._model.answers(x[:, torch.arange(x.shape[1]), at][:, :, None])
        return answers[0, :, 0]

    def _brier(self, logits: Float[Tensor, "row candidate"]) -> Float[Tensor, "row 1"]:
        right = self.batch.right.repeat(len(logits) // self.sequences)
        wanted = torch.nn.functional.one_hot(right, logits.shape[-1])
        return (logits.float().softmax(-1) - wanted).square().sum(dim=-1, keepdim=True)
