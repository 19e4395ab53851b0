"""Decide whether interventions stay below a loss limit, with a margin for the finite number of sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.evaluate.ablations import Interventions
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.search.config import CONFIRM_MARGIN, HOPELESS, JITTER, JITTERED, SCAN_MARGIN, SLACK, SearchConfig
from hopscope.problem.counter import derive_seed

Random = torch.Generator | None
"""A generator that perturbs the order in which changes are tried; with None, the cheapest change goes first."""

FIRST, LARGEST = 256, 1024
"""Further sequences are measured in steps that double their number, from `FIRST` up to `LARGEST` sequences per step."""


@dataclass(eq=False)
class Gauge:
    """Compares losses on one batch with the threshold. A *score* is a mean loss plus `margin` standard errors.

    Attributes:
        evaluator: the model, on the sequences that decide.
        rough: the model on fewer sequences, which decide the order of changes and rule out hopeless changes.
        max_loss: the largest loss that a circuit may have.
        margin: the number of standard errors added to a loss.
        anchor: the model's own score on all sequences, if `evaluator` has only some of them. A candidate is then also
            scored by its difference from the model's losses, which varies less, and the lower score counts.
        middle: the model on more sequences than `rough`, to rule out more of the changes that `rough` left.
        further: more sequences, used if all others do not decide.
    """

    evaluator: Evaluator
    rough: Evaluator
    max_loss: float
    margin: float
    anchor: float | None = None
    middle: Evaluator | None = None
    further: Further | None = None

    def __post_init__(self) -> None:
        self._last: Float[Tensor, " sequence"] | None = None
        self._known: tuple[Interventions, Float[Tensor, " sequence"]] = {}, self.evaluator.own
        self._full = float(self._scores(self.evaluator.own[None])[0])

    @classmethod
    def scanning(cls, evaluator: Evaluator, config: SearchConfig) -> Gauge:
        """Return the gauge on the first sequences, for most decisions."""
        full = float(_above(evaluator.own, CONFIRM_MARGIN))
        few = evaluator.part(config.budget.sequences), evaluator.part(config.budget.rough)
        return cls(*few, config.max_loss, SCAN_MARGIN, anchor=full)

    @classmethod
    def confirming(cls, evaluator: Evaluator, config: SearchConfig) -> Gauge:
        """Return the gauge on all sequences, for the last decisions; it draws more sequences if these do not decide."""
        budget = config.budget
        rough, middle = evaluator.part(budget.rough), evaluator.part(budget.sequences)
        further = Further(evaluator, budget.deciding, budget.margin)
        return cls(evaluator, rough, config.max_loss, budget.margin, middle=middle, further=further)

    def roughly(self) -> Gauge:
        """Return a faster, noisier gauge with the same threshold and the losses on the few `rough` sequences."""
        return Gauge(self.rough, self.rough, self.max_loss, self.margin, self.anchor)

    def limit(self, share: float = 1.0) -> float:
        """Return the score at which this share of the usable slack is spent."""
        return self._full + share * SLACK * (self.max_loss - self._full)

    def scores(self, candidates: Sequence[Interventions]) -> list[float]:
        """Return the scores of candidates: mean squared errors plus the margin."""
        if not candidates:
            return []
        found: list[float] = self._scores(self.evaluator.errors(candidates).double().mean(dim=2)).tolist()
        return found

    def score(self, interventions: Interventions) -> float:
        """Return the score of one candidate; the score of the last candidate is cached."""
        return float(self._scores(self._losses(interventions)[None])[0])

    def passes(self, interventions: Interventions, limit: float) -> bool:
        """Whether the score of interventions is within a limit.

        If the score exceeds the limit only because of the margin, the `further` sequences decide, if available. An
        estimate comes first: the loss of other interventions that was measured on those sequences before, plus how much
        the two losses differ on this gauge's sequences. If the estimate does not decide, the loss is measured.
        """
        losses = self._losses(interventions)
        if self.score(interventions) <= limit:
            return True
        if self.further is None or float(_above(losses, -self.margin)) > limit:
            return False
        mean, error, final = 0.0, float("inf"), False
        if self._last is not None:  # final: measuring these on more sequences would hardly change it
            difference, added = mean_and_error(losses - self._last)
            mean, error = mean_and_error(self.further.losses)
            final = added <= error and self.further.final
            mean, error = mean + difference, (error**2 + added**2) ** 0.5
        if not final and mean - self.margin * error <= limit < mean + self.margin * error:
            mean, error = self._measured(interventions, limit)
        return mean + self.margin * error <= limit

    def hopeful(self, interventions: Interventions, least: Sequence[float], limit: float) -> list[int]:
        """Return the indices of the changes that may be within a limit, given the lowest possible costs, `least`.

        More sequences are measured only if the result depends on the margin.
        """
        low, high = float(_above(self._losses(interventions), -self.margin)), self.score(interventions)
        if self.further is not None and any(low + cost <= limit < high + cost for cost in least):
            mean, error = self._measured(interventions)
            high = min(high, mean + self.margin * error)
        return [number for number, cost in enumerate(least) if high + cost <= limit]

    def costs(
        self, interventions: Interventions, near: Sequence[Interventions], few: Evaluator | None = None
    ) -> tuple[list[float], list[float]]:
        """Return the cost of each candidate compared with `interventions`, and the lowest cost that it can have.

        Costs are measured on few sequences. Costs vary less than losses, so hopeless candidates show early.
        """
        if not near:
            return [], []
        few = few or self.rough
        few.depart_from(interventions)
        own, *errors = few.errors([interventions, *near]).double().mean(dim=2)
        rise = torch.stack(errors) - own
        return rise.mean(dim=1).tolist(), _above(rise, -HOPELESS).tolist()

    def by_cost(
        self, interventions: Interventions, near: Sequence[Interventions], limit: float, generator: Random = None
    ) -> list[int]:
        """Return the indices of the candidates that may be within the limit, by cost; `generator` perturbs costs."""
        costs, least = self.costs(interventions, near)
        hopeful = self.hopeful(interventions, least, limit)
        if self.middle is not None:
            _, least = self.costs(interventions, [near[number] for number in hopeful], self.middle)
            hopeful = [hopeful[number] for number in self.hopeful(interventions, least, limit)]
        cheapest, margin, factors = min(costs, default=0.0), JITTERED * self.max_loss, jitter(len(near), generator)
        weighed = [(cost - cheapest + margin) * factor for cost, factor in zip(costs, factors, strict=True)]
        return sorted(hopeful, key=lambda n: (weighed[n], n))

    def _scores(self, losses: Float[Tensor, "candidate sequence"]) -> Float[Tensor, " candidate"]:
        scores = _above(losses, self.margin)
        if self.anchor is not None:
            scores = scores.minimum(self.anchor + _above(losses - self.evaluator.own, self.margin))
        return scores

    def _losses(self, interventions: Interventions) -> Float[Tensor, " sequence"]:
        known, losses = self._known
        if known != interventions:
            losses = self.evaluator.errors([interventions])[0].double().mean(dim=1)
            self._known = interventions, losses
        return losses

    def _measured(self, interventions: Interventions, limit: float | None = None) -> tuple[float, float]:
        """Return the loss and its standard error on all further sequences, or on enough to decide about a limit."""
        assert self.further is not None
        self._last = self._losses(interventions)
        return self.further.measured(interventions, limit)


class Further:
    """Measures candidates on up to `sequences` more sequences; `margin` standard errors are added to each loss.

    Attributes:
        losses: losses of the interventions that were measured last, by sequence.
    """

    def __init__(self, evaluator: Evaluator, sequences: int, margin: float) -> None:
        self._evaluator, self._most, self._margin = evaluator, sequences, margin
        self._interventions: Interventions = {}
        self.losses: Float[Tensor, " sequence"] = torch.empty(0, dtype=torch.float64)

    @cached_property
    def _parts(self) -> tuple[tuple[Evaluator, int], ...]:
        """The parts of the sequences, one per step (see `FIRST`), each with the number of sequences up to its end."""
        everything, ends = self._evaluator.fresh(self._most, 0, "circuit search, in doubt"), [0]
        self._most = min(self._most, everything.sequences)  # a task of prompts may have fewer
        while ends[-1] < self._most:
            ends.append(min(self._most, ends[-1] + min(max(FIRST, ends[-1]), LARGEST)))
        return tuple((everything.on(everything.batch[start:end]), end) for start, end in pairwise(ends))

    @property
    def final(self) -> bool:
        """Whether the interventions measured last were measured on all sequences."""
        return len(self.losses) == self._most

    def measured(self, interventions: Interventions, limit: float | None = None) -> tuple[float, float]:
        """Return the mean loss of interventions and its standard error; losses of the last interventions are reused.

        Sequences are measured until the mean plus the margin is within the limit, or is unlikely to be within it on
        all sequences. Without a limit, all sequences are measured.
        """
        if interventions != self._interventions:
            self._interventions, self.losses = interventions, torch.empty(0, dtype=torch.float64)
        for evaluator, end in self._parts:
            done = len(self.losses)
            if done < end and not (done and limit is not None and clear(self.losses, self._most, limit, self._margin)):
                losses = evaluator.errors([interventions])[0].double().mean(dim=1)
                self.losses = torch.cat([self.losses, losses])
        return mean_and_error(self.losses)


def clear(losses: Float[Tensor, " sequence"], most: int, limit: float, margin: float) -> bool:
    """Whether these losses suffice to tell if the mean of `most` losses, plus the margin, will be within a limit."""
    mean, error = mean_and_error(losses)
    at_the_end = error * (len(losses) / most) ** 0.5
    still_open = (error**2 - at_the_end**2) ** 0.5
    within = mean + margin * error <= limit
    beyond = mean + margin * at_the_end > limit + margin * still_open
    return within or beyond


def mean_and_error(losses: Float[Tensor, " sequence"]) -> tuple[float, float]:
    """Return the mean of losses and its standard error."""
    return float(losses.mean()), float(losses.std()) / len(losses) ** 0.5


def random_order(config: SearchConfig, name: str) -> torch.Generator:
    """Return the random generator of the search order with this name."""
    return torch.Generator().manual_seed(derive_seed(config.seed, "circuit search", name))


def jitter(count: int, generator: Random) -> list[float]:
    """Return factors for costs: all 1 without a generator, otherwise log-normal to perturb the order."""
    if generator is None:
        return [1.0] * count
    factors: list[float] = torch.randn(count, generator=generator).mul(JITTER).exp().tolist()
    return factors


def _above(losses: Float[Tensor, "*candidate sequence"], margin: float) -> Float[Tensor, "*candidate"]:
    """Return the mean plus `margin` standard errors."""
    above: Tensor = losses.mean(dim=-1) + margin * losses.std(dim=-1) / losses.shape[-1] ** 0.5
    return above
