"""Losses on fresh sequences: first on few; if these do not decide, on all; if these do not decide either, on more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.checks.card import CertificateConfig
from hopscope.circuits.evaluate.ablations import Ablation, Interventions
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.problem.counter import derive_seed
from hopscope.problem.paths import HeadRow
from hopscope.statistics import Measured, measured, resampled

_SURE = 4.0
"""A mean on few sequences is clear if it is this many standard errors away from the limit."""

_PURPOSE = "circuit certificate"
"""The purpose from which the seeds of fresh sequences and random draws are derived."""

T = TypeVar("T")


class FreshLosses:
    """The losses of a model on sequences that no search has seen; each is measured only once.

    `all` is the model on `proof.sequences` of them; `few` and `rough` are the model on the first of those.

    Args:
        evaluator: the model, on any batch; only its transformer and problem are used.
        near: the circuit that most interventions are close to.
        max_loss: the loss threshold.
        seed: the seed of the sequences and random draws.
        proof: the numbers of sequences.
    """

    def __init__(
        self, evaluator: Evaluator, near: Interventions, max_loss: float, seed: int, proof: CertificateConfig
    ) -> None:
        self._near, self._max_loss, self._seed, self._proof = near, max_loss, seed, proof
        fresh = partial(evaluator.fresh, proof.sequences, seed, _PURPOSE)
        self.all = evaluator.once(f"{_PURPOSE}: {proof.sequences} from {seed}", fresh)
        self.few, self.rough = self.all.part(proof.few), self.all.part(proof.rough)
        self._known: dict[tuple[Evaluator, frozenset[tuple[HeadRow, Ablation]]], Tensor] = self.all.once("losses", dict)

    @cached_property
    def more(self) -> Evaluator:
        """The model on many other sequences, used if `all` do not decide."""
        fresh = partial(self.all.fresh, self._proof.deciding, self._seed, f"{_PURPOSE}, in doubt")
        return self.all.once(f"in doubt: {self._proof.deciding}", fresh)

    def losses(
        self, evaluator: Evaluator, candidates: Sequence[Interventions], near: Interventions | None = None
    ) -> Float[Tensor, "candidate sequence"]:
        """Return the losses of each candidate by sequence; candidates close to `near` are cheap."""
        keys = [(evaluator, frozenset(candidate.items())) for candidate in candidates]
        new = {key: candidate for key, candidate in zip(keys, candidates, strict=True) if key not in self._known}
        if new:
            evaluator.depart_from(self._near if near is None else near)
            found = evaluator.errors([*new.values()]).double().mean(dim=2)
            self._known |= dict(zip(new, found, strict=True))
        return torch.stack([self._known[key] for key in keys]) if keys else torch.zeros(0, evaluator.sequences)

    def mean_losses(self, candidates: Sequence[Interventions]) -> list[float]:
        """Return the mean loss on few sequences under each candidate."""
        means: list[float] = self.losses(self.few, candidates).mean(dim=1).tolist()
        return means

    def resampled_losses(self, candidates: Sequence[Interventions]) -> npt.NDArray[Any]:
        """Return mean losses [candidate, resample] on resamples of the few sequences, shared by all candidates."""
        return resampled(self.losses(self.few, candidates), derive_seed(self._seed, _PURPOSE, "bootstrap"))

    def screened(
        self, candidates: Sequence[Interventions], limit: float, near: Interventions | None = None
    ) -> list[float]:
        """Return mean losses on `rough`, or on `few` for candidates that `rough` leaves in doubt about `limit`."""
        rough = self.losses(self.rough, candidates, near)
        close = [number for number, loss in enumerate(rough) if self.in_doubt(loss, limit)]
        means: list[float] = rough.mean(dim=1).tolist()
        losses = self.losses(self.few, [candidates[number] for number in close], near).mean(dim=1).tolist()
        for number, loss in zip(close, losses, strict=True):
            means[number] = loss
        return means

    def until_clear(self, measure: Callable[[Evaluator], T], doubtful: Callable[[T], bool]) -> T:
        """Measure on few sequences, then on all if the result is doubtful, then on more if it is still doubtful."""
        for evaluator in (self.few, self.all):
            if not doubtful(found := measure(evaluator)):
                return found
        return measure(self.more)

    def sure(self, interventions: Interventions) -> Measured:
        """Measure the loss under interventions, on enough sequences to tell on which side of the threshold it is."""
        losses = self.until_clear(
            lambda evaluator: self.losses(evaluator, [interventions])[0],
            lambda loss: self.in_doubt(loss, self._max_loss),
        )
        return self.measured(losses)

    def in_doubt(self, values: Float[Tensor, " sequence"], limit: float) -> bool:
        """Whether the limit lies within the 95% interval of the mean or, on few sequences, within a wider interval."""
        if len(values) < self._proof.sequences:
            return bool((values.mean() - limit).abs() <= _SURE * values.std() / len(values) ** 0.5)
        low, high = self.measured(values).interval
        return low <= limit <= high

    def measured(self, values: Float[Tensor, " sequence"]) -> Measured:
        """Return the mean of `values`, one per sequence, with its 95% interval."""
        return measured(values, derive_seed(self._seed, _PURPOSE, "bootstrap"))

    def random(self, purpose: str) -> torch.Generator:
        """Return a random generator for one purpose."""
        return torch.Generator().manual_seed(derive_seed(self._seed, _PURPOSE, purpose))
