"""What is kept of a language model of our own: whether it answers, by which circuit, and how it came to answer."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.compare import kinds_looked_up
from hopscope.problem.paths import NamedPath
from studies.text_otherwise import HALF_WAY, Otherwise
from studies.tools.circuits import RULES

ANSWERS = 0.95
"""A model answers if its accuracy is surely at least this."""


@dataclass(frozen=True)
class Answered:
    """What was found in one model at one number of hops.

    Attributes:
        arm: the arm of the model.
        seed: the seed of the model.
        hops: D.
        accuracy: the accuracy of the model.
        lowest: the lower end of its 95% interval.
        bar: the highest Brier score that the circuit may have.
        losses: of the model (`full`), of the circuit with its patterns imposed and with its own, and of nothing.
        certified: whether all parts of the certificate passed.
        failed: the parts that did not pass.
        strategy: the strategy of the circuit, see `hopscope.circuits.strategy.strategy`.
        layers_used: the number of layers with a path that matters.
        layers_needed: the number of layers that are needed by theory.
        delivers: whether the paths carry x{D} to where the answer is written, by theory.
        looked_up: how many look-ups into lines land on each kind of token.
        paths: the paths of the circuit.
        rules: the version of what the certificate asked, see `hopscope.circuits.checks.certificate.RULES`; 1 for the
            first studies, which did not say.
    """

    arm: str
    seed: int
    hops: int
    accuracy: float
    lowest: float
    bar: float
    losses: dict[str, float]
    certified: bool
    failed: tuple[str, ...]
    strategy: str
    layers_used: int
    layers_needed: int
    delivers: bool
    looked_up: dict[str, int]
    paths: tuple[NamedPath, ...]
    rules: int = 1

    def tells_of(self, *, planned: bool) -> set[str]:
        """The name of a model at a number of hops."""
        return {f"{self.arm} {self.seed} {self.hops}"}

    @property
    def answers(self) -> bool:
        """Whether the model surely answers."""
        return self.lowest >= ANSWERS

    @classmethod
    def of(cls, circuit: Circuit, arm: str, seed: int) -> Answered:
        """What is kept of a circuit."""
        assert circuit.text is not None
        return cls(
            arm=arm,
            seed=seed,
            hops=circuit.hops,
            accuracy=circuit.text.scores["full"].accuracy,
            lowest=circuit.text.lowest,
            bar=circuit.bar,
            losses=circuit.losses,
            certified="natural" in circuit.certified,
            failed=circuit.certificate.failed,
            strategy=circuit.strategy,
            layers_used=circuit.certificate.number("deliverability", "layers_used") or 0,
            layers_needed=circuit.certificate.number("deliverability", "layers_needed") or 0,
            delivers=circuit.delivers,
            looked_up=kinds_looked_up(circuit),
            paths=tuple(one.path.names(circuit.roles) for one in circuit.paths),
            rules=RULES,
        )


@dataclass(frozen=True)
class Grown:
    """How one model came to answer.

    Attributes:
        arm: the arm of the model.
        seed: the seed of the model.
        steps: the steps of its checkpoints.
        accuracy: the accuracy at each checkpoint, by number of hops.
        attention: at each checkpoint, the attention of every path of its final circuit, by number of hops and path.
    """

    arm: str
    seed: int
    steps: tuple[int, ...]
    accuracy: dict[str, tuple[float, ...]]
    attention: dict[str, dict[str, tuple[float, ...]]]

    def tells_of(self, *, planned: bool) -> set[str]:
        """The name of a model."""
        return {f"{self.arm} {self.seed}"}

    def learned(self, hops: int) -> int | None:
        """The first checkpoint from which on the accuracy stays at least half-way to certain; None if there is none."""
        below = [step for step, value in zip(self.steps, self.accuracy[str(hops)], strict=True) if value < HALF_WAY]
        later = [step for step in self.steps if not below or step > below[-1]]
        return min(later, default=None)

    @property
    def in_order(self) -> bool | None:
        """Whether each hop was learned at a later checkpoint than the one before; None if only ties leave this open."""
        steps = [self.learned(int(hops)) for hops in sorted(self.accuracy, key=int)]
        pairs = list(pairwise(float("inf") if step is None else step for step in steps))
        if any(one > other for one, other in pairs):
            return False
        return True if all(one < other for one, other in pairs) else None


@dataclass(frozen=True)
class TextResult:
    """Everything that was found.

    Attributes:
        found: one entry for each arm, model and number of hops.
        grown: one entry for each arm and model for which checkpoints were kept.
        otherwise: one entry for each arm, model and way of asking, where the model was at hand.
    """

    found: tuple[Answered, ...]
    grown: tuple[Grown, ...] = ()
    otherwise: tuple[Otherwise, ...] = ()

    def at(self, arm: str, hops: int) -> list[Answered]:
        """What was found in an arm's models at a number of hops."""
        return [one for one in self.found if (one.arm, one.hops) == (arm, hops)]

    def seeds(self, arm: str, hops: int) -> set[int]:
        """Seeds of the models of an arm that answer so many hops."""
        return {one.seed for one in self.at(arm, hops) if one.answers}

    def answering(self, arm: str) -> list[Grown]:
        """The models of an arm that answer at every number of hops, and how they grew."""
        asked = [one for one in self.found if one.arm == arm]
        answering = {one.seed for one in asked} - {one.seed for one in asked if not one.answers}
        return [one for one in self.grown if one.arm == arm and one.seed in answering]
