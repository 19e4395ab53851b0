"""The evaluator of a language model on questions.

The error of an answer is its Brier score among the acceptable answers, which is the squared error of the model's
probabilities: 0 for a certain and right answer, and 0.75 for a guess among four, as for vectors.
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
from hopscope.language.journal import Journal
from hopscope.language.text_batch import LanguageTask, TextBatch, text_batch
from hopscope.model.hooks import Hooks, Pattern, Stream
from hopscope.model.torch_module import TokenModule
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.scene import Scene, text_scene

TextModel = HookedDecoder | TokenModule
"""A model that reads texts: a language model, or a torch module of your own that takes tokens."""


class TextEvaluator(Evaluator):
    """An evaluator of a language model on a batch of questions; a journal keeps the losses of an interrupted search.

    Raises:
        InputError: a question is longer than the model or the window of one of its layers allows, or has a token that
            the model does not know.
    """

    transformer: TextModel
    batch: TextBatch

    def __init__(
        self, model: TextModel, tokenizer: Any, task: LanguageTask, batch: TextBatch, journal: Journal | None = None
    ) -> None:
        model.check_length(batch.inputs.shape[1])
        for ids in (batch.inputs, batch.candidates):
            model.check_tokens(tokenizer, ids)
        super().__init__(model, task.problem, batch.to(model.device))
        self.names, self.task, self._tokenizer, self._journal = task.problem.all_roles, task, tokenizer, journal
        self.off_is_alike = task.thrifty

    @property
    def scene(self) -> Scene | None:
        """The initial knowledge of every role of a chain that is written as text; None for a task without chains."""
        return text_scene(self.problem) if isinstance(self.problem, RetrievalProblem) else None

    def applied(self, interventions: Interventions) -> Interventions:
        """Return interventions in which rows of a pretrained model are chain-agnostic instead of `uniform`.

        A chain-agnostic row keeps its pattern, but attends equally to all chains of a question; if there is only one
        chain, it attends to no role. Pretrained models also attend to the first token and to other text, and uniform
        rows would change this attention.
        """
        if not self.off_is_alike or UNIFORM not in interventions.values():
            return interventions
        return {row: ALIKE if ablation == UNIFORM else ablation for row, ablation in interventions.items()}

    def off(self, pattern: Pattern) -> Pattern:
        """Return the pattern of a layer with all rows ablated."""
        if not self.off_is_alike:
            return super().off(pattern)
        shared = self.cache.shared(tuple((query, ALIKE) for query in range(len(self.names))))
        return self.cache.chains.alike(pattern[0].transpose(0, 1), shared).transpose(0, 1)[None]

    def on(self, batch: TextBatch) -> TextEvaluator:
        """Return an evaluator of the same model on other questions."""
        return TextEvaluator(self.transformer, self._tokenizer, self.task, batch, self._journal)

    def errors(self, candidates: Sequence[Interventions]) -> Float[Tensor, "candidate sequence 1"]:
        """Return the Brier scores under each candidate, by question; those in the journal are not measured again."""
        if self._journal is None or self.shares_for(candidates) != (self,):
            return super().errors(candidates)
        return self._journal.errors(self.batch, candidates, super().errors)

    def fresh(self, sequences: int, seed: int, purpose: str) -> TextEvaluator:
        """Return an evaluator of the same model on questions that depend only on seed and purpose."""
        return self.on(text_batch(self.task, self._tokenizer, sequences, seed, purpose))

    def squared_errors(self, x: Stream) -> Float[Tensor, "model_sequence hop"]:
        """Return the Brier scores of the answers."""
        candidates = self.batch.candidates.repeat(x.shape[1] // self.sequences, 1)
        return self._brier(self._asked(x).gather(-1, candidates))

    def with_untrained(self, heads: Sequence[tuple[int, int]], seed: int) -> TextEvaluator:
        """Return an evaluator of a copy of the model in which some heads, as (layer, head), have initial weights."""
        untrained = self.transformer.with_untrained(heads, seed)
        return TextEvaluator(untrained, self._tokenizer, self.task, self.batch)

    @torch.no_grad()
    def scores(self, interventions: Interventions) -> Scores:
        """Return how well the model answers the questions under interventions."""
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
        """Return the logits of the token that follows every question."""
        self.transformer.answered(x.shape[1])
        at = self.batch.answer.repeat(x.shape[1] // self.sequences)
        answers: Tensor = self.transformer.answers(x[:, torch.arange(x.shape[1]), at][:, :, None])
        return answers[0, :, 0]

    def _brier(self, logits: Float[Tensor, "row candidate"]) -> Float[Tensor, "row 1"]:
        right = self.batch.right.repeat(len(logits) // self.sequences)
        wanted = torch.nn.functional.one_hot(right, logits.shape[-1])
        return (logits.float().softmax(-1) - wanted).square().sum(dim=-1, keepdim=True)
