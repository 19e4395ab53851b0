"""The evaluator of a transformer that somebody else wrote, on the retrieval problem as vectors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.evaluate.on_vectors import OnVectors
from hopscope.model.hooks import Hooks
from hopscope.model.torch_module import TorchModule
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch
from hopscope.training.losses import squared_errors


class ForeignEvaluator(OnVectors):
    """One module and one batch.

    Args:
        transformer: the module behind the seam.
        problem: the problem that it answers.
        batch: the sequences, with one leading axis.
    """

    def __init__(self, transformer: TorchModule, problem: RetrievalProblem, batch: Batch) -> None:
        super().__init__(transformer, problem, batch)
        self._transformer = transformer

    @property
    def transformer(self) -> TorchModule:
        """The model."""
        return self._transformer

    def on(self, batch: Batch) -> ForeignEvaluator:
        """The same model on another batch."""
        return ForeignEvaluator(self.transformer, self.problem, batch)

    @torch.no_grad()
    def plain_errors(self, edit: Hooks | None = None) -> Float[Tensor, "sequence hop"]:
        """Errors of the module itself; under an edit, those of its parts run from the first to the last."""
        inputs = self.batch.inputs
        if edit is None:
            answers = self.transformer.plain(inputs)
        else:
            stream = self.transformer.run(self.transformer.embed(inputs[None]), hooks=edit)
            answers = self.transformer.answers(stream[:, :, -self.shape.reads :])[0]
        return squared_errors(answers, self.batch.targets, self.problem.symbol_dim)

    def with_untrained(self, heads: Sequence[tuple[int, int]], seed: int) -> ForeignEvaluator:
        """The same batch under a copy of the module in which some heads have initial weights."""
        return ForeignEvaluator(self.transformer.with_untrained(heads, seed), self.problem, self.batch)
