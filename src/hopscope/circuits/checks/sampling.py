"""Losses on fresh sequences: on few at first, on all where these leave a doubt, on more where that is left still."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.checks.card import CertificateConfig
from hopscope.circuits.evaluate.ablations import Ablation, Interventions
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.problem.counter import derive_seed
from hopscope.problem.paths import HeadRow
from hopscope.statistics import Measured, measured

T = TypeVar("T")

_SURE = 4.0
"""How many standard errors on few sequences count as clear: beyond that, more would not change the outcome."""

_FRESH = "circuit certificate"
"""The purpose that the seeds of fresh sequences and random draws are derived for."""


class Sampling:
    """A model on fresh sequences, and its losses there, each measured once.

    From then on, `evaluator` is the model on `proof.sequences` fresh sequences; `few` and `rough` on the first of them.

    Args:
        evaluator: the model, on any batch; its transformer and problem are used.
        base: interventions that most others depart from; layers below the first difference are computed once.
        max_loss: the loss threshold, with which losses are compared where no other limit is named.
        seed: the seed of the fresh sequences and random draws; no search sees them.
        proof: how many sequences and random draws there are.
    """

    def __init__(
        self, evaluator: Evaluator, base: Interventions, max_loss: float, seed: int, proof: CertificateConfig
    ) -> None:
        self.base, self.max_loss, self.seed, self.proof = base, max_loss, seed, proof
        fresh = partial(evaluator.fresh, proof.sequences, seed, _FRESH)
        self.evaluator = evaluator.once(f"{_FRESH}: {proof.sequences} from {seed}", fresh)
        self.few, self.rough = self.evaluator.part(proof.few), self.evaluator.part(proof.rough)
        self._known: dict[tuple[Evaluator, frozenset[tuple[HeadRow, Ablation]]], Float[Tensor, " sequence"]] = (
            self.evaluator.once("losses", dict)
        )

    @cached_property
    def more(self) -> Evaluator:
        """The model on many other sequences, for what `evaluator` leaves open."""
        fresh = partial(self.evaluator.fresh, self.proof.deciding, self.seed, f"{_FRESH}, in doubt")
        return self.evaluator.once(f"in doubt: {self.proof.deciding}", fresh)

    def losses(
        self, evaluator: Evaluator, candidates: Sequence[Interventions], near: Interventions | None = None
    ) -> Float[Tensor, "candidate sequence"]:
        """The losses by sequence under each candidate; `near` is what they depart from, by default the circuit."""
        keys = [(evaluator, frozenset(candidate.items())) for candidate in candidates]
        new = {key: candidate for key, candidate in zip(keys, candidates, strict=True) if key not in self._known}
        if new:
            evaluator.depart_from(self.base if near is None else near)
            found = evaluator.errors([*new.values()]).double().mean(dim=2)
            self._known |= dict(zip(new, found, strict=True))
        return torch.stack([self._known[key] for key in keys]) if keys else torch.zeros(0, evaluator.sequences)

    def mean_losses(self, candidates: Sequence[Interventions]) -> list[float]:
        """The mean loss on few sequences under each candidate."""
        means: list[float] = self.losses(self.few, candidates).mean(dim=1).tolist()
        return means

    def screened(
        self, candidates: Sequence[Interventions], limit: float, near: Interventions | None = None
    ) -> list[float]:
        """Mean losses under many candidates: on `few` sequences where `rough` ones leave open on which side of `limit`
        a loss is."""
        rough = self.losses(self.rough, candidates, near)
        close = [number for number, loss in enumerate(rough) if _near(loss, limit)]
        means: list[float] = rough.mean(dim=1).tolist()
        losses = self.losses(self.few, [candidates[number] for number in close], near).mean(dim=1).tolist()
        for number, loss in zip(close, losses, strict=True):
            means[number] = loss
        return means

    def until_clear(self, measure: Callable[[Evaluator], T], doubtful: Callable[[T], bool]) -> T:
        """A measurement on few sequences, on all if it is in doubt, and on more if it still is."""
        for evaluator in (self.few, self.evaluator):
            if not doubtful(found := measure(evaluator)):
                return found
        return measure(self.more)

    def sure(self, interventions: Interventions) -> Measured:
        """The loss under interventions, on so many sequences that its interval does not contain the threshold."""

        def measure(evaluator: Evaluator) -> Float[Tensor, " sequence"]:
            return self.losses(evaluator, [interventions])[0]

        return self.measured(self.until_clear(measure, lambda loss: self.in_doubt(loss, self.max_loss)))

    def in_doubt(self, values: Float[Tensor, " sequence"], limit: float) -> bool:
        """Whether their mean may be on either side of a limit: by its interval, on few sequences by a wider one."""
        if len(values) < self.proof.sequences:
            return _near(values, limit)
        low, high = self.measured(values).interval
        return low <= limit <= high

    def measured(self, values: Float[Tensor, " sequence"]) -> Measured:
        """The mean of values by sequence, with its interval."""
        return measured(values, derive_seed(self.seed, _FRESH, "bootstrap"))

    def random(self, purpose: str) -> torch.Generator:
        """A random generator for one purpose."""
        return torch.Generator().manual_seed(derive_seed(self.seed, _FRESH, purpose))


def _near(values: Float[Tensor, " sequence"], limit: float) -> bool:
    """Whether a mean over few sequences is not surely on one side of a limit."""
    return bool((values.mean() - limit).abs() <= _SURE * values.std() / len(values) ** 0.5)
