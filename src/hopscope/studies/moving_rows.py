"""Asking a model by what it tells rows apart: the measurements of `by_place`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.elsewhere import PatternsPut, rows_elsewhere
from hopscope.model.transformer import Transformer
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch, sample
from hopscope.studies.by_place import ByPlace, RowsMoved
from hopscope.training.losses import squared_errors

SEED = 0
"""Where the sequences are drawn from."""


@torch.no_grad()
def ask_by_place(
    model: str,
    transformer: Transformer,
    problem: RetrievalProblem,
    facts: Sequence[int],
    sequences: int,
    seed: int = SEED,
) -> ByPlace:
    """Ask one model.

    Args:
        model: its name.
        transformer: with one model.
        problem: one that asks for every look-up.
        facts: whose rows are moved, one after the other, from 1.
        sequences: so many pairs.
        seed: that they are drawn from.
    """
    here = sample(problem, sequences, torch.Generator().manual_seed(seed))
    asked = torch.arange(problem.sequence_length) >= problem.sequence_length - problem.chains
    everywhere, of_next = asked.expand(sequences, -1), _of_the_next(here, problem)
    moved = []
    for fact in facts:
        elsewhere = rows_elsewhere(problem, here, fact)
        for layer, pattern in enumerate(transformer.patterns(elsewhere.sequences.inputs[None])):
            put = PatternsPut(layer, elsewhere.brought(pattern), everywhere)
            answers = transformer(here.inputs[None], put)
            losses, beside = (_losses(answers, right, problem) for right in (here.targets, of_next))
            moved.append(RowsMoved(fact, layer + 1, losses, beside[fact - 1]))
    return ByPlace(model, _losses(transformer(here.inputs[None]), here.targets, problem), tuple(moved))


def _of_the_next(batch: Batch, problem: RetrievalProblem) -> Float[Tensor, "batch query d_target"]:
    """For each query, what the next chain's is asked for."""
    chain = batch.chain[:, -problem.chains :]
    query = chain.argsort(dim=-1).gather(-1, (chain + 1) % problem.chains)
    return batch.targets.gather(1, query[..., None].expand(batch.targets.shape))


def _losses(
    answers: Float[Tensor, "1 batch query d_target"],
    targets: Float[Tensor, "batch query d_target"],
    problem: RetrievalProblem,
) -> tuple[float, ...]:
    errors = squared_errors(answers[0], targets, problem.symbol_dim).mean(dim=0)
    return tuple(round(float(error), 4) for error in errors)
