"""The types in which a circuit is reported: the six checks (`Circuit.checks`) and the card (`Circuit.card`).

The terms come from the literature: faithfulness and completeness (Wang et al. 2022), resample ablation (causal
scrubbing, Chan et al. 2022), ACDC (Conmy et al. 2023), integrated gradients (Hanna et al. 2024), CPR and CMD (MIB,
Mueller et al. 2025).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Literal, get_args

from hopscope.checks import Count, Range, check_fields, check_type
from hopscope.errors import InputError
from hopscope.statistics import Interval
from hopscope.theory.path_flow import Strategy

CheckName = Literal["sufficiency", "necessity", "completeness", "outside", "right_keys", "delivery"]
CHECKS: tuple[CheckName, ...] = get_args(CheckName)
"""The names of the checks, in the order in which they are shown."""

Outcome = Literal["passed", "failed", "not asked"]

Patterns = Literal["own", "imposed"]
"""Whether the active rows of a circuit keep the model's own patterns, or get imposed patterns (Appendix E)."""


@dataclass(frozen=True)
class Check:
    """The result of one check.

    Attributes:
        name: the name of the check.
        outcome: whether the circuit passed; `not asked` if the check makes no sense for the task.
        says: the finding in one sentence.
        numbers: the measured numbers, by name.
        interval: the 95% interval of the number that decided the outcome; None if the number has no interval.
    """

    name: CheckName
    outcome: Outcome
    says: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    interval: Interval | None = None

    @property
    def passed(self) -> bool:
        """Whether the circuit passed the check."""
        return self.outcome == "passed"


def failing(checks: Mapping[CheckName, Check]) -> tuple[CheckName, ...]:
    """Return the names of the checks that failed; checks that were not asked do not count."""
    return tuple(name for name, check in checks.items() if check.outcome == "failed")


def all_passed(checks: Mapping[CheckName, Check]) -> bool:
    """Whether all six checks were made and none of them counts against the circuit (see `failing`)."""
    return set(CHECKS) <= set(checks) and not failing(checks)


@dataclass(frozen=True)
class Size:
    """The size of a circuit.

    Attributes:
        paths: number of attention paths.
        active: number of active rows: rows with a path, and helper rows.
        at_mean: number of other rows that are replaced by a mean or positional mean pattern instead of switched off.
        rows: number of rows of the model that can reach an answer.
    """

    paths: int
    active: int
    at_mean: int
    rows: int

    @property
    def not_off(self) -> int:
        """The number of rows that are not off: active rows, and rows replaced by a mean."""
        return self.active + self.at_mean


@dataclass(frozen=True)
class Faithfulness:
    """How far a circuit gets from nothing (0) to the model (1), with all other rows off (`uniform`), at their mean, or
    with the pattern of another sequence (`resample`). `intervals` has the 95% bootstrap interval of each; None in
    records that were made before these were measured."""

    uniform: float
    mean: float
    resample: float
    intervals: tuple[Interval, Interval, Interval] | None = None


@dataclass(frozen=True)
class Curve:
    """Faithfulness over circuit size; each point is (number of active rows, faithfulness), from no row to all rows."""

    points: tuple[tuple[int, float], ...]

    @property
    def cpr(self) -> float:
        """The area under the curve over the share of rows (MIB's integrated circuit performance ratio)."""
        return _area(self.points)

    @property
    def cmd(self) -> float:
        """The area between the curve and 1 (MIB's integrated circuit-model distance)."""
        return _area([(rows, abs(1 - share)) for rows, share in self.points])


def _area(points: Sequence[tuple[int, float]]) -> float:
    """Return the area under a curve of straight lines, with its width scaled to 1."""
    total = sum((right[0] - left[0]) * (left[1] + right[1]) / 2 for left, right in pairwise(points))
    return total / max(points[-1][0], 1) if points else 0.0


@dataclass(frozen=True)
class Damage:
    """The damage to the model when parts of the circuit are knocked out, as a share of the damage to the circuit."""

    whole: float
    worst_row: float
    worst_key: float


@dataclass(frozen=True)
class Baselines:
    """The faithfulness of other circuits with the same number of active rows; None if it was not measured.

    Attributes:
        random: faithfulness of the best random circuit.
        drawn: number of distinct random circuits; with fewer than 20, the comparison is not testable.
        acdc: faithfulness of the circuit that ACDC's rule finds.
        attribution: faithfulness of the rows with the highest attribution (integrated gradients).
        untrained: faithfulness of the circuit itself when its heads have their initial weights.
    """

    random: float | None
    drawn: int
    acdc: float | None
    attribution: float | None
    untrained: float | None


FoundBy = Literal["content", "position", "not asked"]


@dataclass(frozen=True)
class Card:
    """The numbers of a circuit, measured on sequences that its search has not seen.

    Attributes:
        size: the size of the circuit.
        own: faithfulness with the model's own patterns.
        imposed: faithfulness with imposed patterns.
        order: names of the active rows in the order of removal; the row that is missed least goes first.
        curve: faithfulness over circuit size.
        completeness: damage in the model compared with damage in the circuit.
        baselines: faithfulness of other circuits of the same size, chosen on some of these sequences (in their favour).
        strategy: how the paths together produce the answer.
        found_by: whether rows find their keys by content or by position.
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
    """The numbers of sequences and random draws with which the checks and the card of a circuit are measured.

        >>> run[0].find_circuit(effort="quick", proof=hs.CertificateConfig(draws=500), overwrite=True).certified
        False

    Attributes:
        sequences: number of sequences for the losses of the circuit and of its rows.
        deciding: number of other sequences, used if a loss on `sequences` is not clearly on one side of a limit.
        few: number of sequences for comparisons of many ablations.
        draws: maximum number of random circuits.
        halves: number of random halves of the rows outside the circuit that are ablated, in pairs; a quarter of this
            number is used for random sets of rows of the circuit.
        pairs: maximum number of pairs of rows that are removed together, least missed first. In a circuit with more
            pairs, `Card.order` ranks rows by the loss without each row. None for all pairs and the exact order.

    Raises:
        InputError: a number is too small, or exceeds another number that must be at least as large.
    """

    sequences: Count = 256
    deciding: Count = 1024
    few: Annotated[int, Range(2)] = 48
    draws: Count = 200
    halves: Annotated[int, Range(4)] = 32
    pairs: Count | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        for few, many in (("few", "sequences"), ("sequences", "deciding")):
            if getattr(self, many) < getattr(self, few):
                raise InputError(f"{many} must be at least {few} ({getattr(self, few)}), got {getattr(self, many)}")

    @property
    def rough(self) -> int:
        """The number of sequences for a first comparison of many ablations; unclear losses are measured on more."""
        return min(8, self.few)

    @classmethod
    def of(cls, proof: CertificateConfig | None) -> CertificateConfig:
        """Return the given configuration, or the default for None."""
        example = "an hs.CertificateConfig, as in hs.CertificateConfig(draws=500)"
        check_type("proof", proof, CertificateConfig | None, example)
        return proof or cls()
