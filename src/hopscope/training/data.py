"""The data of every step, which depend only on seed and step, so that no data are stored; and the loss."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import gcd

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hopscope.problem.counter import derive_seed
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch, Examples
from hopscope.training.recipe import Recipe

# Primes above the size of any training set, so that multiplying by one of them permutes the indices modulo the size.
_PRIMES = (1073741827, 1073741831, 1073741833, 1073741839, 1073741843, 1073741857, 1073741891, 1073741909)

PRUNING = 256
"""Number of fresh sequences on which pruning measures the loss without some heads."""

_SEQUENCES_AT_ONCE = {"cpu": 1024, "cuda": 2**16}
"""Number of sequences to generate at once, by device: several small batches together take little longer than one."""


class Data:
    """Batches [model, batch, ...] of an ensemble, generated on its device; a model trained alone gets the same data."""

    def __init__(self, problem: RetrievalProblem, recipe: Recipe, seeds: Sequence[int], device: str = "cpu") -> None:
        self.recipe, self.seeds, self.device = recipe, tuple(seeds), device
        self._examples = Examples(problem)
        self._training, self._validation, self._pruning = map(self._streams, ("training", "validation", "pruning"))
        at_once = _SEQUENCES_AT_ONCE.get(torch.device(device).type, 1024)
        self._steps_at_once = max(1, at_once // (len(self.seeds) * recipe.batch_size))
        self._made: dict[int, Batch] = {}

    def training(self, step: int) -> Batch:
        """Return the training batch of the update that takes `step` to `step + 1`."""
        steps, size = self._steps_at_once, self.recipe.batch_size
        first, place = step - step % steps, step % steps
        if first not in self._made:
            numbers = torch.arange(first * size, (first + steps) * size, device=self.device)
            examples = self.recipe.examples
            shuffled = numbers[None] if examples is None else self._shuffled(numbers, examples)
            self._made = {first: self._examples.at(self._training, shuffled)}
        return self._made[first][:, place * size : (place + 1) * size]

    def validation(self, step: int) -> Batch:
        """Return fresh sequences, which are used only at this step and never in training."""
        return self._fresh(self._validation, step, self.recipe.validation_size)

    def pruning(self, step: int) -> Batch:
        """Return further fresh sequences, on which pruning at this step measures the loss without some heads."""
        return self._fresh(self._pruning, step, PRUNING)

    def _fresh(self, streams: Int[Tensor, "model 1"], step: int, size: int) -> Batch:
        return self._examples.at(streams, torch.arange(step * size, (step + 1) * size, device=self.device)[None])

    def _streams(self, purpose: str) -> Int[Tensor, "model 1"]:
        seeds = [derive_seed(seed, purpose) for seed in self.seeds]
        return torch.tensor(seeds, dtype=torch.int64, device=self.device)[:, None]

    def _shuffled(self, numbers: Int[Tensor, " batch"], size: int) -> Int[Tensor, "model batch"]:
        """Map running example numbers to indices below `size`. Every pass visits each index once, in a new order."""
        passes = range(int(numbers[0]) // size, int(numbers[-1]) // size + 1)
        orders = torch.tensor([[_order(seed, pass_, size) for pass_ in passes] for seed in self.seeds])
        multipliers, shifts = orders.to(self.device)[:, numbers // size - passes.start].unbind(-1)
        return (numbers % size * multipliers + shifts) % size


@lru_cache(maxsize=256)
def _order(seed: int, pass_: int, size: int) -> tuple[int, int]:
    """Return the multiplier and the shift that define a model's order of examples in one pass."""
    draw = derive_seed(seed, "order", pass_)
    # Examples are independent draws, so an affine order is as random as any in the first pass. Later passes use any
    # multiplier that permutes the indices: primes slightly above 2^30 would give nearly the same batches in every pass
    # if the size is a power of two.
    if pass_ == 0:
        return _PRIMES[draw % len(_PRIMES)], draw // len(_PRIMES) % size
    multiplier, shift = draw % size, draw // size % size
    while gcd(multiplier, size) > 1:
        multiplier += 1
    return multiplier, shift


def held_out(problem: RetrievalProblem, size: int, seed: int = 0, purpose: str = "held-out") -> Batch:
    """Return a fixed set of `size` sequences that are never used in training. Leading axis: batch."""
    stream = torch.tensor(derive_seed(seed, purpose), dtype=torch.int64)
    return Examples(problem).at(stream, torch.arange(size))


def squared_errors(
    answers: Float[Tensor, "*batch query d_target"], targets: Float[Tensor, "*#batch query d_target"], symbol_dim: int
) -> Float[Tensor, "*batch hop"]:
    """Compute every sequence's mean squared error by target hop, averaged over queries and components.

    An answer of zero has an error of 1. The average of the N candidates has an error of 1 - 1/N, the plateau (0.75 for
    N = 4).
    """
    errors = (answers.float() - targets).square()
    return errors.reshape(*errors.shape[:-1], -1, symbol_dim).mean(dim=(-3, -1))
