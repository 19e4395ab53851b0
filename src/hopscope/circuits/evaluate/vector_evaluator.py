"""The evaluator of transformers on vectors: the retrieval problem as the paper trains it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.evaluate.evaluator import Elsewhere, Evaluator
from hopscope.model.architecture import AS_TORCH, InitialWeights
from hopscope.model.fast import FastTransformer
from hopscope.model.hooks import Stream
from hopscope.model.initial_weights import with_untrained_heads
from hopscope.model.torch_module import TorchModule
from hopscope.model.transformer import Transformer
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch
from hopscope.theory.scene import Scene, problem_scene
from hopscope.training.data import held_out, squared_errors


class VectorEvaluator(Evaluator):
    """One model on vectors, a `Transformer` or any torch module, and one batch.

    `initial` says how the weights of a `Transformer` were drawn before training, and how untrained heads are drawn.
    """

    transformer: Transformer | TorchModule
    problem: RetrievalProblem
    batch: Batch

    def __init__(
        self,
        transformer: Transformer | TorchModule,
        problem: RetrievalProblem,
        batch: Batch,
        initial: InitialWeights = AS_TORCH,
    ) -> None:
        super().__init__(transformer, problem, batch)
        self.names, self.initial = problem.roles, initial

    @classmethod
    def of(
        cls, transformer: Transformer | TorchModule, problem: RetrievalProblem, initial: InitialWeights = AS_TORCH
    ) -> VectorEvaluator:
        """Return a model with 256 sequences that neither training nor a search uses."""
        return cls(transformer, problem, held_out(problem, 256, purpose="notebook"), initial)

    @property
    def scene(self) -> Scene:
        """The information that every role of one chain starts with."""
        return problem_scene(self.problem)

    @property
    def skipped(self) -> frozenset[tuple[int, int]]:
        """The heads that write nothing, if the transformer keeps track of them; otherwise empty."""
        return self.transformer.skipped if isinstance(self.transformer, FastTransformer) else frozenset()

    def on(self, batch: Batch) -> VectorEvaluator:
        """Return the same model on another batch."""
        return VectorEvaluator(self.transformer, self.problem, batch, self.initial)

    def fresh(self, sequences: int, seed: int, purpose: str) -> VectorEvaluator:
        """Return the same model on sequences that no training sees."""
        return self.on(held_out(self.problem, sequences, seed, purpose))

    def elsewhere(self, pair: int) -> Elsewhere:
        """Return the model run on the same chains, after each chain's rows of one pair moved to the next chain's place.

        `pair` counts from 1 in the order of retrieval.
        """
        problem, inputs, place = self.problem, self.batch.inputs, self.batch.place.clone()
        moves = [problem.fact_of(role) == pair for role in range(len(problem.roles))]
        of_pair = torch.tensor(moves, device=place.device)
        rows = place[:, :, of_pair]
        place[:, :, of_pair] = rows.roll(-1, dims=1)
        at = torch.arange(inputs.shape[1], device=place.device).repeat(len(place), 1)
        at.scatter_(1, rows.flatten(1), rows.roll(-1, dims=1).flatten(1))
        symbols, codes = inputs[..., : problem.symbol_dim], inputs[..., problem.symbol_dim :]
        before = at.argsort(dim=-1)[..., None].expand(symbols.shape)
        there = Batch(torch.cat((symbols.gather(1, before), codes), dim=-1), self.batch.targets, place)
        return Elsewhere(self.on(there), at, of_pair[self.batch.role])

    def squared_errors(self, x: Stream) -> Float[Tensor, "model_sequence hop"]:
        """Return the squared errors of the answers at the last positions, averaged over queries and components."""
        answers = self.transformer.answers(x[:, :, -self.shape.reads :])
        by_candidate = answers.view(-1, self.sequences, *answers.shape[-2:])
        return squared_errors(by_candidate, self.batch.targets, self.problem.symbol_dim).flatten(0, 1)

    def with_untrained(self, heads: Sequence[tuple[int, int]], seed: int) -> VectorEvaluator:
        """Return the same batch under a copy of the model in which the given heads have initial weights."""
        model = self.transformer
        if isinstance(model, Transformer):
            mixed: Transformer | TorchModule = with_untrained_heads(model, heads, seed, self.initial)
        else:
            mixed = model.with_untrained(heads, seed)
        return VectorEvaluator(mixed, self.problem, self.batch, self.initial)
