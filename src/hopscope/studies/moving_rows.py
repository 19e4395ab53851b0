"""Asking a model by what it tells rows apart: the measurements of `by_place`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.model.edit import Edit, Pattern
from hopscope.model.transformer import Transformer
from hopscope.problem.layout import layout
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch, compose
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
    moved, as_it_is = [], tuple[float, ...]()
    for fact in facts:
        here, there = pairs(problem, fact, sequences, seed)
        as_it_is, of_next = _losses(transformer(here.inputs[None]), here.targets, problem), _of_the_next(here, problem)
        for layer, pattern in enumerate(transformer.patterns(there.inputs[None])):
            answers = transformer(here.inputs[None], TakenOver(layer, by_role(pattern, here, there), problem.chains))
            losses, beside = (_losses(answers, right, problem) for right in (here.targets, of_next))
            moved.append(RowsMoved(fact, layer + 1, losses, beside[fact - 1]))
    return ByPlace(model, as_it_is, tuple(moved))


def pairs(problem: RetrievalProblem, fact: int, sequences: int, seed: int) -> tuple[Batch, Batch]:
    """Sequences, and the same with each chain's row of a fact, from 1, at the next chain's place."""
    laid, generator = layout(problem), torch.Generator().manual_seed(seed)
    symbols = torch.randn((sequences, problem.chains, laid.symbols, problem.symbol_dim), generator=generator)
    order = torch.rand((sequences, problem.hops + 1, laid.rows), generator=generator).argsort(dim=-1)
    moved = order.clone()
    moved[:, fact - 1, : problem.chains] = order[:, fact - 1, : problem.chains].roll(-1, dims=-1)
    return compose(problem, symbols, order), compose(problem, symbols, moved)


def by_role(pattern: Pattern, here: Batch, there: Batch) -> Pattern:
    """Patterns of sequences `there`, each weight where the same role of the same chain stands `here`."""
    holder = here.chain * here.place.shape[-1] + here.role
    position = there.place.flatten(-2).gather(-1, holder)
    return pattern.gather(-1, position[None, :, None, None].expand(pattern.shape))


class TakenOver(Edit):
    """Puts patterns in the place of a layer's own, at the positions that are asked.

    Args:
        layer: from 0.
        pattern: what is put there.
        asked: positions, the last of the sequence.
    """

    def __init__(self, layer: int, pattern: Pattern, asked: int) -> None:
        self._layer, self._pattern, self._asked = layer, pattern, asked

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """The layer's pattern, changed where it is that one."""
        if layer != self._layer:
            return pattern
        changed = pattern.clone()
        changed[..., -self._asked :, :] = self._pattern[..., -self._asked :, :]
        return changed


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
