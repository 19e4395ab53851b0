"""Fresh sequences, few at first and more where these leave a doubt, and the losses measured on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.checks.card import CertificateConfig
from hopscope.circuits.evaluate.ablations import Interventions
from hopscope.circuits.evaluate.bootstrap import Measured, measured
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.problem.counter import derive_seed


class Lost(NamedTuple):
    """Losses by sequence without something, and the circuit's own on the same sequences.

    `due` is how much the mean must rise at least for it to be needed.
    """

    without: Float[Tensor, " sequence"]
    own: Float[Tensor, " sequence"]
    due: float

    @property
    def rise(self) -> Float[Tensor, " sequence"]:
        """How much the loss rises."""
        return self.without - self.own


T = TypeVar("T")

SURE = 5.0
"""How many standard errors on few sequences count as clear: beyond that, more would not change the outcome."""

_FRESH = "circuit certificate"
"""The purpose that the seeds of fresh sequences and random draws are derived for."""


class Sampling:
    """A model on fresh sequences.

    Args:
        evaluator: the model, on any batch; its transformer and problem are used.
        max_loss: the loss threshold, with which losses are compared where no other limit is named.
        seed: the seed of the fresh sequences and random draws; no search sees them.
        proof: how many sequences and random draws there are.

    From then on, `evaluator` is the model on `proof.sequences` fresh sequences; `few` and `rough` on the first of them.
    """

    def __init__(self, evaluator: Evaluator, max_loss: float, seed: int, proof: CertificateConfig) -> None:
        self.max_loss, self.seed, self.proof = max_loss, seed, proof
        self.evaluator = evaluator.fresh(proof.sequences, seed, _FRESH)
        self.few, self.rough = self.evaluator.part(proof.few), self.evaluator.part(proof.rough)

    @cached_property
    def more(self) -> Evaluator:
        """The model on many other sequences, for what `evaluator` leaves open."""
        return self.evaluator.fresh(self.proof.deciding, self.seed, f"{_FRESH}, in doubt")

    def until_clear(self, measure: Callable[[Evaluator], T], doubtful: Callable[[T], bool], *, few: bool = True) -> T:
        """A measurement on as many sequences as it takes until it is in no doubt, or on as many as there are."""
        for evaluator in (self.few, self.evaluator) if few else (self.evaluator,):
            found = measure(evaluator)
            if not doubtful(found):
                return found
        return measure(self.more)

    def sure(self, interventions: Interventions) -> Measured:
        """The loss under interventions; on more sequences as long as its interval contains the threshold."""
        return self.sure_of(lambda evaluator: by_sequence(evaluator, [interventions])[0])

    def sure_of(self, losses: Callable[[Evaluator], Float[Tensor, " sequence"]]) -> Measured:
        """The mean of losses by sequence; on more sequences as long as their interval contains the threshold."""
        (found,) = self.measured([self.until_clear(losses, lambda found: self.in_doubt([found]))])
        return found

    def in_doubt(self, losses: Sequence[Float[Tensor, " sequence"]], limit: float | None = None) -> bool:
        """Whether the interval of any of the losses contains a limit, by default the threshold."""
        limit = self.max_loss if limit is None else limit
        return any(loss.interval[0] <= limit <= loss.interval[1] for loss in self.measured(losses))

    def settled(self, candidates: list[Interventions], limit: float, near: Interventions) -> list[float]:
        """Mean losses; on twice as many sequences, up to `few`, while it is open on which side of `limit` a loss is.

        `near` is what the candidates depart from; its first layers are computed once.
        """
        losses, close = [0.0] * len(candidates), [*range(len(candidates))]
        for evaluator in self._rising:
            if close:
                evaluator.depart_from(near)
                errors = by_sequence(evaluator, [candidates[number] for number in close])
                doubts = SURE * errors.std(dim=1) / evaluator.sequences**0.5
                for number, loss in zip(close, errors.mean(dim=1).tolist(), strict=True):
                    losses[number] = loss
                close = [n for n, doubt in zip(close, doubts.tolist(), strict=True) if abs(losses[n] - limit) <= doubt]
        return losses

    @cached_property
    def _rising(self) -> list[Evaluator]:
        """The model on `rough` sequences, on twice as many, and so on up to `few`."""
        rough, few = self.proof.rough, self.proof.few
        counts = [rough << doubled for doubled in range((few // rough).bit_length())]
        return [self.evaluator.part(count) for count in sorted({*counts, few})]

    def measured(self, values: Sequence[Float[Tensor, " _"]]) -> list[Measured]:
        """The means of values by sequence, with their intervals."""
        seed = derive_seed(self.seed, _FRESH, "bootstrap")
        return [measured(of_sequences, seed) for of_sequences in values]

    def random(self, purpose: str) -> torch.Generator:
        """A random generator for one purpose."""
        return torch.Generator().manual_seed(derive_seed(self.seed, _FRESH, purpose))


def by_sequence(evaluator: Evaluator, candidates: list[Interventions]) -> Float[Tensor, "candidate sequence"]:
    """The losses under each candidate's interventions, by sequence."""
    return evaluator.errors(candidates).double().mean(dim=2) if candidates else torch.zeros(0, evaluator.sequences)
