"""Fresh sequences, few at first and more where these leave a doubt, and the losses measured on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.checks.certificate import CertificateConfig, tidy
from hopscope.circuits.evaluate.ablations import Interventions
from hopscope.circuits.evaluate.bootstrap import Interval, intervals
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.problem.counter import derive_seed


class Measured(NamedTuple):
    """A mean over sequences with its 95% interval, rounded for people."""

    mean: float
    interval: Interval

    @classmethod
    def of(cls, values: Float[Tensor, " sequence"], seed: int) -> Measured:
        """The mean of values by sequence; the interval is by the bootstrap, from `seed`."""
        ((low, high),) = intervals(values[None], seed)
        return cls(tidy(float(values.mean())), (tidy(low), tidy(high)))


class Levels(NamedTuple):
    """The losses of the model (`full`) and of nothing, between which a circuit's `own` lies."""

    full: float
    nothing: float
    own: float

    def faithfulness(self, loss: float) -> float:
        """How far a loss goes from that of nothing (0) to that of the model (1)."""
        return (self.nothing - loss) / max(self.nothing - self.full, 1e-12)

    def at(self, faithfulness: float) -> float:
        """The loss that goes this far."""
        return self.nothing - faithfulness * (self.nothing - self.full)


class Lost(NamedTuple):
    """Losses by sequence without a row (or key), and those of the program it is judged in, on the same sequences.

    `due` is how much the mean must rise at least for the row to be needed.
    """

    without: Float[Tensor, " sequence"]
    own: Float[Tensor, " sequence"]
    due: float

    @property
    def rise(self) -> Float[Tensor, " sequence"]:
        """How much the loss rises without the row."""
        return self.without - self.own


T = TypeVar("T")

SURE = 5.0
"""How many standard errors on few sequences count as clear: beyond that, more sequences would not change a verdict."""


class Sampling:
    """A model on fresh sequences.

    Args:
        evaluator: the model, on any batch; its transformer and problem are used.
        bar: the limit that losses are compared with where no other is named.
        seed: the seed of the fresh sequences and random draws; no search sees them.
        proof: how many sequences and random draws there are.

    From then on, `evaluator` is the model on `proof.sequences` fresh sequences; `few` and `rough` on the first of them.
    """

    def __init__(self, evaluator: Evaluator, bar: float, seed: int, proof: CertificateConfig) -> None:
        self.bar, self.seed, self.proof = bar, seed, proof
        self.evaluator = evaluator.fresh(proof.sequences, seed, "circuit certificate")
        self.few, self.rough = self.evaluator.part(proof.few), self.evaluator.part(proof.rough)

    @cached_property
    def more(self) -> Evaluator:
        """The model on many other sequences, for what `evaluator` leaves open."""
        return self.evaluator.fresh(self.proof.deciding, self.seed, "circuit certificate, in doubt")

    def until_clear(self, measure: Callable[[Evaluator], T], doubtful: Callable[[T], bool], *, few: bool = True) -> T:
        """A measurement on as many sequences as it takes until it is in no doubt, or on as many as there are."""
        found = self._at_hand(measure, doubtful, few=few)
        return measure(self.more) if doubtful(found) else found

    def all_until_clear(
        self,
        measures: Sequence[Callable[[Evaluator], T]],
        doubtful: Callable[[T], bool],
        refuting: Callable[[T], bool],
        *,
        few: bool = True,
    ) -> list[T]:
        """As `until_clear`, but once one measurement refutes what all must show, none is made on `more` sequences."""
        found = [self._at_hand(measure, doubtful, few=few) for measure in measures]
        for number, measure in enumerate(measures):
            if doubtful(found[number]) and not any(map(refuting, found)):
                found[number] = measure(self.more)
        return found

    def _at_hand(self, measure: Callable[[Evaluator], T], doubtful: Callable[[T], bool], *, few: bool) -> T:
        """A measurement on the `few` sequences if they are enough, else on all but `more`."""
        found = measure(self.few if few else self.evaluator)
        return measure(self.evaluator) if few and doubtful(found) else found

    def sure(self, program: Interventions) -> Measured:
        """The loss of a program; on more sequences if its interval contains the bar."""
        return self.sure_of(lambda evaluator: by_sequence(evaluator, [program])[0])

    def sure_of(self, losses: Callable[[Evaluator], Float[Tensor, " sequence"]]) -> Measured:
        """The mean of some losses by sequence; on more sequences if their interval contains the bar."""
        (measured,) = self.measured([self.until_clear(losses, lambda found: self.in_doubt([found]), few=False)])
        return measured

    def in_doubt(self, losses: Sequence[Float[Tensor, " sequence"]], limit: float | None = None) -> bool:
        """Whether the interval of any of the losses contains a limit, by default the bar."""
        limit = self.bar if limit is None else limit
        return any(one.interval[0] <= limit <= one.interval[1] for one in self.measured(losses))

    def settled(self, programs: list[Interventions], limit: float, near: Interventions) -> list[float]:
        """Mean losses; on twice as many sequences, up to `few`, while it is open on which side of `limit` a loss is.

        `near` is a program from which the others depart; its first layers are computed once.
        """
        return [loss for loss, _ in self.settled_or_open(programs, limit, near)]

    def settled_or_open(
        self, programs: list[Interventions], limit: float, near: Interventions
    ) -> list[tuple[float, bool]]:
        """The losses of `settled`, each with whether it is still open on `few` sequences."""
        losses, close = [0.0] * len(programs), [*range(len(programs))]
        for evaluator in self._rising:
            if close:
                evaluator.depart_from(near)
                errors = by_sequence(evaluator, [programs[number] for number in close])
                doubts = SURE * errors.std(dim=1) / evaluator.sequences**0.5
                for number, loss in zip(close, errors.mean(dim=1).tolist(), strict=True):
                    losses[number] = loss
                close = [n for n, doubt in zip(close, doubts.tolist(), strict=True) if abs(losses[n] - limit) <= doubt]
        return [(loss, number in close) for number, loss in enumerate(losses)]

    @cached_property
    def _rising(self) -> list[Evaluator]:
        """The model on `rough` sequences, on twice as many, and so on up to `few`."""
        rough, few = self.proof.rough, self.proof.few
        counts = [rough << doubled for doubled in range((few // rough).bit_length())]
        return [self.evaluator.part(count) for count in sorted({*counts, few})]

    def measured(self, values: Sequence[Float[Tensor, " _"]]) -> list[Measured]:
        """The means of values by sequence, with their intervals."""
        seed = derive_seed(self.seed, "circuit certificate", "bootstrap")
        return [Measured.of(value, seed) for value in values]

    def random(self, purpose: str) -> torch.Generator:
        """A random generator for one purpose."""
        return torch.Generator().manual_seed(derive_seed(self.seed, "circuit certificate", purpose))


def by_sequence(evaluator: Evaluator, programs: list[Interventions]) -> Float[Tensor, "program sequence"]:
    """The losses of programs by sequence."""
    return evaluator.errors(programs).double().mean(dim=2) if programs else torch.zeros(0, evaluator.sequences)
