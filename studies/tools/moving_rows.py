"""Testing by what a model tells rows apart: the measurements of `by_place`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.evaluate.elsewhere import taken_from_elsewhere
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator, single
from hopscope.model.transformer import Transformer
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch, sample
from hopscope.training.many import finished
from hopscope.training.setup import Setup
from hopscope.training.work import Work
from studies.tools.by_place import ByPlace, RowsMoved
from studies.tools.circuits import diverged
from studies.tools.kept import Models

SEED = 0
"""The seed that the sequences are drawn from."""


def places_of(
    setups: Sequence[Setup],
    folder: Path,
    before: Sequence[ByPlace],
    work: Work,
    facts: Callable[[RetrievalProblem], Sequence[int]],
    sequences: int = 512,
) -> tuple[ByPlace, ...]:
    """By what each model tells rows apart, for every model that is finished and available or was tested before.

    A model that diverged is not tested: it makes no look-up.

    Args:
        setups: runs of one model each.
        folder: where the run folders are.
        before: models that were tested before, perhaps on another machine.
        work: how the work is done; if it is idle, nothing is tested.
        facts: for a problem, the facts whose rows are moved, from 1.
        sequences: the number of pairs of sequences.

    Raises:
        InputError: a run there is damaged, or belongs to another setup.
    """
    models = Models(setups, before)
    for name, run in ({} if work.idle else finished(models.left, folder)).items():
        if diverged(run):
            models.add(name, ByPlace(name, (None,) * len(run.problem.target_hops), ()))
        else:
            transformer = single(run.transformer(None), 0)
            models.add(name, ask_by_place(name, transformer, run.problem, facts(run.problem), sequences))
    return models.all


@torch.no_grad()
def ask_by_place(
    model: str,
    transformer: Transformer,
    problem: RetrievalProblem,
    facts: Sequence[int],
    sequences: int,
    seed: int = SEED,
) -> ByPlace:
    """Test by what one model tells rows apart.

    Args:
        model: the name of the model.
        transformer: a transformer with one model.
        problem: a problem that asks for every look-up.
        facts: the facts whose rows are moved, one after the other, from 1.
        sequences: the number of pairs of sequences.
        seed: the seed they are drawn from.
    """
    batch = sample(problem, sequences, torch.Generator().manual_seed(seed))
    here = VectorEvaluator(transformer, problem, batch)
    there = here.on(replace(batch, targets=_of_the_one_before(batch, problem)))
    moved = []
    for fact in facts:
        for taken in taken_from_elsewhere(here, {}, fact):
            by_pattern, by_writing, by_choice = (_losses(here.squared_errors(x)) for x in taken[1:])
            beside = min(_losses(there.squared_errors(x))[fact - 1] for x in taken[1:])
            moved.append(RowsMoved(fact, taken.layer + 1, by_pattern, by_writing, by_choice, beside))
    return ByPlace(model, _losses(here.errors([{}])[0]), tuple(moved))


def _of_the_one_before(batch: Batch, problem: RetrievalProblem) -> Float[Tensor, "batch query d_target"]:
    """For each query, the target of the query of the chain before."""
    chain = batch.chain[:, -problem.chains :]
    query = chain.argsort(dim=-1).gather(-1, (chain - 1) % problem.chains)
    return batch.targets.gather(1, query[..., None].expand(batch.targets.shape))


def _losses(errors: Float[Tensor, "sequence look_up"]) -> tuple[float, ...]:
    return tuple(round(float(error), 4) for error in errors.mean(dim=0))
