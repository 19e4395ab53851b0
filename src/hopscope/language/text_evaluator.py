"""The evaluator of a language model on questions.

The error of an answer is its Brier score among the acceptable answers, that is the squared error of the model's
probabilities: 0 if it is sure and right, 0.75 if it guesses among four, as for vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.circuit_parts import Scores
from hopscope.circuits.evaluate.ablations import ALIKE, UNIFORM, Interventions
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.language.hooked import HookedDecoder
from hopscope.language.text_batch import LanguageTask, TextBatch, text_batch
from hopscope.model.hooks import Hooks, Pattern, Stream
from hopscope.model.torch_module import TokenModule
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.scene import Scene, text_scene

TextModel = HookedDecoder | TokenModule
"""What a text is read by: a language model, or a torch module of your own that takes tokens."""


class TextEvaluator(Evaluator):
    """One language model and some questions.

    Raises:
        InputError: questions longer than the model takes, or than a window of its layers, or with tokens that it
            does not know.
    """

    transformer: TextModel
    batch: TextBatch

    def __init__(self, model: TextModel, tokenizer: Any, task: LanguageTask, batch: TextBatch) -> None:
        model.check_length(batch.inputs.shape[1])
        for ids in (batch.inputs, batch.candidates):
            model.check_tokens(tokenizer, ids)
        super().__init__(model, task.problem, batch.to(model.device))
        self.names, self.task, self._tokenizer = task.problem.all_roles, task, tokenizer
        self.off_is_alike = task.thrifty

    @property
    def scene(self) -> Scene | None:
        """What every role of one chain, written as text, knows at the start; None for a task without chains."""
        return text_scene(self.problem) if isinstance(self.problem, RetrievalProblem) else None

    def applied(self, interventions: Interventions) -> Interventions:
        """Interventions in which `uniform` rows of a pretrained model keep their patterns, chain-agnostic: without what
        is on the roles of a task of your own, or with as much on all chains of a question.

        Pretrained models rest at the first token and read the text around; uniform patterns would change all of that.
        """
        if not self.off_is_alike or UNIFORM not in interventions.values():
            return interventions
        return {row: ALIKE if ablation == UNIFORM else ablation for row, ablation in interventions.items()}

    def off(self, pattern: Pattern) -> Pattern:
        """A layer's pattern with all rows off."""
        if not self.off_is_alike:
            return super().off(pattern)
        shared = self.cache.shared(tuple((query, ALIKE) for query in range(len(self.names))))
        return self.cache.chains.alike(pattern[0].transpose(0, 1), shared).transpose(0, 1)[None]

    def on(self, batch: TextBatch) -> TextEvaluator:
        """The same model on other questions."""
        return TextEvaluator(self.transformer, self._tokenizer, self.task, batch)

    def fresh(self, sequences: int, seed: int, purpose: str) -> TextEvaluator:
        """The same model on questions that depend on seed and purpose alone."""
        return self.on(text_batch(self.task, self._tokenizer, sequences, seed, purpose))

    def squared_errors(self, x: Stream) -> Float[Tensor, "model_sequence hop"]:
        """Brier scores of the answers."""
        candidates = self.batch.candidates.repeat(x.shape[1] // self.sequences, 1)
        return self._brier(self._asked(x).gather(-1, candidates))

    def with_untrained(self, heads: Sequence[tuple[int, int]], seed: int) -> TextEvaluator:
        """The same questions under a copy of the model in which some heads have initial weights."""
        untrained = self.transformer.with_untrained(heads, seed)
        return TextEvaluator(untrained, self._tokenizer, self.task, self.batch)

    @torch.no_grad()
    def scores(self, interventions: Interventions) -> Scores:
        """How well the questions are answered under interventions."""
        shares = [share for share in self.shares_for([interventions]) if isinstance(share, TextEvaluator)]
        logits = torch.cat([share._asked(share._run(share.edit(interventions))) for share in shares])
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

    def _run(self, hooks: Hooks) -> Stream:
        return self.transformer.run(self.transformer.embed(self.batch.inputs[None]), hooks=hooks)

    def _asked(self, x: Stream) -> Float[Tensor, "row vocabulary"]:
        """Logits of the token that follows every question."""
        self.transformer.answered(x.shape[1])
        at = self.batch.answer.repeat(x.shape[1] // self.sequences)
        answers: Tensor = self.transformer.answers(x[:, torch.arange(x.shape[1]), at][:, :, None])
        return answers[0, :, 0]

    def _brier(self, logits: Float[Tensor, "row candidate"]) -> Float[Tensor, "row 1"]:
        right = self.batch.right.repeat(len(logits) // self.sequences)
        wanted = torch.nn.functional.one_hot(right, logits.shape[-1])
        return (logits.float().softmax(-1) - wanted).square().sum(dim=-1, keepdim=True)
