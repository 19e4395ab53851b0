"""What is reported of a circuit: the six checks, and the card with its numbers (`Circuit.checks`, `Circuit.card`).

Terms are those of the literature: faithfulness and completeness (Wang et al. 2022), resample ablation (causal
scrubbing, Chan et al. 2022), ACDC (Conmy et al. 2023), integrated gradients (Hanna et al. 2024), CPR and CMD (MIB,
Mueller et al. 2025).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, get_args

from hopscope.checks import check_count, check_type, make_plain
from hopscope.errors import InputError
from hopscope.statistics import Interval
from hopscope.theory.path_flow import Strategy

CheckName = Literal["sufficiency", "necessity", "completeness", "outside", "right_keys", "delivery"]
CHECKS: tuple[CheckName, ...] = get_args(CheckName)
"""The names of the checks, in the order in which they are shown."""

Outcome = Literal["passed", "failed", "not asked", "not testable"]

Patterns = Literal["own", "imposed"]
"""Whether the active rows of a circuit make the model's own patterns, or have theirs imposed (Appendix E)."""


@dataclass(frozen=True)
class Check:
    """What one check found.

    Attributes:
        name: the check.
        outcome: whether it passed; `not asked` where the question makes no sense for the task.
        says: what was found, in one sentence.
        numbers: what was measured, by name.
        interval: the 95% interval of the number that decided, where there is one.
    """

    name: CheckName
    outcome: Outcome
    says: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    interval: Interval | None = None

    @property
    def passed(self) -> bool:
        """Whether it passed."""
        return self.outcome == "passed"


def not_passed(checks: Mapping[CheckName, Check]) -> tuple[CheckName, ...]:
    """The names of the checks that count against a circuit; one that makes no sense for the task does not."""
    return tuple(name for name, check in checks.items() if check.outcome in ("failed", "not testable"))


def all_passed(checks: Mapping[CheckName, Check]) -> bool:
    """Whether all six checks are there and none counts against the circuit."""
    return set(CHECKS) <= set(checks) and not not_passed(checks)


@dataclass(frozen=True)
class Size:
    """How large a circuit is.

    Attributes:
        paths: attention paths.
        active: active rows: those with a path, and helper rows.
        at_mean: rows that are at a mean or a positional mean instead of off.
        rows: rows of the model that can reach an answer.
    """

    paths: int
    active: int
    at_mean: int
    rows: int

    @property
    def not_off(self) -> int:
        """Rows that are not off: active ones, and those at a mean."""
        return self.active + self.at_mean


@dataclass(frozen=True)
class Faithfulness:
    """The share of the way from nothing to the model, everything else ablated in one of three ways."""

    uniform: float
    mean: float
    resample: float


@dataclass(frozen=True)
class Curve:
    """Faithfulness over circuit size: points of (rows with their own patterns, faithfulness), from no row to all."""

    points: tuple[tuple[int, float], ...]

    @property
    def cpr(self) -> float:
        """Area under the curve over the share of rows (MIB's integrated circuit performance ratio)."""
        return _area(self.points)

    @property
    def cmd(self) -> float:
        """Area between the curve and 1 (MIB's integrated circuit-model distance)."""
        return _area([(rows, abs(1 - share)) for rows, share in self.points])


def _area(points: Sequence[tuple[int, float]]) -> float:
    """The area under a polygon, its width scaled to 1."""
    total = sum((right[0] - left[0]) * (left[1] + right[1]) / 2 for left, right in pairwise(points))
    return total / max(points[-1][0], 1) if points else 0.0


@dataclass(frozen=True)
class Damage:
    """What the model loses with the circuit knocked out, as a share of what the circuit loses: in all, at the worst."""

    whole: float
    worst_row: float
    worst_key: float


@dataclass(frozen=True)
class Baselines:
    """Faithfulness of other circuits with as many active rows; None where it was not measured.

    Attributes:
        random: the best of the random circuits.
        drawn: how many distinct random circuits there were; under 20 the comparison is not testable.
        acdc: ACDC's rule.
        attribution: rows taken by integrated gradients.
        untrained: the circuit itself, its heads with initial weights.
    """

    random: float | None
    drawn: int
    acdc: float | None
    attribution: float | None
    untrained: float | None


FoundBy = Literal["content", "position", "not asked"]


@dataclass(frozen=True)
class Card:
    """The numbers of a circuit, on sequences that no search saw.

    Attributes:
        size: its size.
        own: its faithfulness with the model's own patterns.
        imposed: its faithfulness with its patterns imposed.
        order: names of the active rows, in the order in which they fall, the one that is missed least first.
        curve: faithfulness over circuit size.
        completeness: damage in the model compared with damage in the circuit.
        baselines: other circuits of its size.
        strategy: how the answer comes about.
        found_by: whether rows are found by their content or by their position.
    """

    size: Size
    own: Faithfulness
    imposed: Faithfulness
    order: tuple[str, ...]
    curve: Curve
    completeness: Damage
    baselines: Baselines
    strategy: Strategy
    found_by: FoundBy


@dataclass(frozen=True)
class CertificateConfig:
    """How many sequences and random draws the checks and the card of a circuit are measured on.

        >>> run[0].find_circuit(effort="quick", proof=hs.CertificateConfig(draws=500), overwrite=True).certified
        False

    Attributes:
        sequences: how many sequences the losses of the circuit and of its rows are measured on.
        deciding: how many other sequences decide on losses which those leave on either side of a limit.
        few: how many sequences comparisons with many ablations are made on.
        draws: how many random circuits are drawn at most.
        halves: how many random halves of what is outside (in pairs), and half as many parts of what is inside, are
            ablated.
        pairs: how many pairs of rows are taken away at most, those first that are missed least; a circuit with more
            falls in the order in which its rows are missed alone. None for all pairs, and for an exact order.

    Raises:
        InputError: a number is too small, or larger than one that it must not exceed.
    """

    sequences: int = 256
    deciding: int = 1024
    few: int = 48
    draws: int = 200
    halves: int = 32
    pairs: int | None = None

    def __post_init__(self) -> None:
        make_plain(self)
        for name, least in (("draws", 1), ("halves", 4), ("few", 2), ("sequences", 1), ("deciding", 1)):
            check_count(f"{name} of a certificate", getattr(self, name), least)
        if self.pairs is not None:
            check_count("pairs of a certificate", self.pairs)
        for few, many in (("few", "sequences"), ("sequences", "deciding")):
            if getattr(self, many) < getattr(self, few):
                raise InputError(f"{many} must be at least {few} ({getattr(self, few)}), got {getattr(self, many)}")

    @property
    def rough(self) -> int:
        """How many sequences many ablations are measured on first; what is clear there is not measured again."""
        return min(8, self.few)

    @classmethod
    def of(cls, proof: CertificateConfig | None) -> CertificateConfig:
        """A given configuration; the default for None."""
        example = "an hs.CertificateConfig, as in hs.CertificateConfig(draws=500)"
        check_type("proof", proof, CertificateConfig | None, example)
        return proof or cls()
