"""A certificate: its parts, whether they passed, and how many sequences and random draws they were measured on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hopscope.checks import check_count, check_seed, make_plain
from hopscope.errors import InputError
from hopscope.records import convert

Sense = Literal["natural", "strict"]
"""The reading in which a circuit is certified. `natural`: its rows make their own patterns, everything else is off.
`strict`: its patterns are imposed, ones at the claimed keys and nothing elsewhere, and no row is left at its mean."""

PART_NAMES = (
    "harness", "sufficiency", "necessity", "minimality", "random_keys", "places",
    "recovery", "families", "outside", "completeness", "deliverability", "untrained",
)  # fmt: skip
"""The names of all parts, in the order in which a reader asks for them."""


@dataclass(frozen=True)
class Part:
    """One part of a certificate.

    Attributes:
        passed: whether it passed by its rule.
        says: what was seen, in one sentence.
        numbers: what was measured, by name: numbers, text, and lists and objects of them.
        seed: the seed of the fresh sequences and random draws.
    """

    passed: bool
    says: str
    numbers: Mapping[str, Any]
    seed: int = 0

    def seeded(self, seed: int) -> Part:
        """The same part with its seed."""
        return replace(self, seed=seed)

    def to_json(self) -> dict[str, Any]:
        """The part as records have it: the numbers beside `passed`, `says` and `seed`."""
        told = {"passed": self.passed, "says": self.says, **self.numbers, "seed": self.seed}
        made: dict[str, Any] = json.loads(json.dumps(told))
        return made

    @classmethod
    def from_json(cls, made: Mapping[str, Any], name: str) -> Part:
        """The part that `to_json` was given."""
        numbers = {**made}
        passed, says, seed = numbers.pop("passed", None), numbers.pop("says", None), numbers.pop("seed", 0)
        if not isinstance(passed, bool) or not isinstance(says, str):
            raise InputError(f"part {name!r} of the certificate lacks `passed` or `says`")
        check_seed(seed, f"seed of part {name!r} of the certificate")
        return cls(passed, says, numbers, seed)


@dataclass(frozen=True)
class Certificate:
    """What proves a circuit: every part, in the order in which a reader asks for them.

        >>> circuit = run[0].find_circuit()  # a model of a few steps has no circuit
        >>> circuit.certificate.passed, circuit.certificate.failed
        (False, ('sufficiency',))

    Attributes:
        sense: the reading that it is about.
        parts: the parts by name; empty where nothing was certified.
    """

    sense: Sense
    parts: Mapping[str, Part] = field(default_factory=dict)

    def __repr__(self) -> str:
        """One line, for notebooks; the numbers are in `parts`."""
        verdict = "passed" if self.passed else f"failed {', '.join(self.failed)}" if self.failed else "not whole"
        return f"<{self.sense} certificate: {verdict}; {len(self.parts)} parts>"

    def number(self, part: str, name: str) -> Any:
        """A number that a part measured; None where the part or the number is not there."""
        return self.parts[part].numbers.get(name) if part in self.parts else None

    @property
    def failed(self) -> tuple[str, ...]:
        """The parts that did not pass."""
        return tuple(name for name, part in self.parts.items() if not part.passed)

    @property
    def passed(self) -> bool:
        """Whether every part is there and passed."""
        return set(PART_NAMES) <= set(self.parts) and not self.failed

    def to_json(self) -> dict[str, dict[str, Any]]:
        """The certificate as records have it: parts by name."""
        return {name: part.to_json() for name, part in self.parts.items()}

    @classmethod
    def from_json(cls, sense: Sense, made: Any) -> Certificate:
        """The certificate that `to_json` was given."""
        parts = convert(made, dict[str, dict[str, Any]], "certificate")
        return cls(sense, {name: Part.from_json(part, name) for name, part in parts.items()})


def tidy(value: float) -> float:
    """A value rounded to six digits: more would be noise."""
    return float(f"{value:.6g}")


@dataclass(frozen=True)
class CertificateConfig:
    """How many sequences and random draws stand behind a certificate.

        >>> run[0].find_circuit(effort="quick", proof=hs.CertificateConfig(draws=500), overwrite=True).certified
        ()

    Attributes:
        sequences: how many sequences the losses of the circuit and of its rows are measured on.
        deciding: how many other sequences decide on losses which those leave on either side of a limit.
        few: how many sequences comparisons with many programs are made on.
        rough: how many sequences such programs are seen on first; what is clear there is not measured again.
        draws: how many random circuits are drawn where a p-value is quoted.
        halves: how many random halves of what is outside (in pairs), and random parts of what is inside, are tried.

    Raises:
        InputError: a number is too small, or larger than one that it must not exceed.
    """

    sequences: int = 256
    deciding: int = 2048
    few: int = 48
    rough: int = 8
    draws: int = 200
    halves: int = 32

    def __post_init__(self) -> None:
        make_plain(self)
        for name, least in (("rough", 2), ("draws", 1), ("halves", 4), ("few", 1), ("sequences", 1), ("deciding", 1)):
            check_count(f"{name} of a certificate", getattr(self, name), least)
        for few, many in (("rough", "few"), ("few", "sequences"), ("sequences", "deciding")):
            if getattr(self, many) < getattr(self, few):
                raise InputError(f"{many} must be at least {few} ({getattr(self, few)}), got {getattr(self, many)}")

    @classmethod
    def of(cls, proof: CertificateConfig | None) -> CertificateConfig:
        """The proof asked for; the default for None."""
        if not isinstance(proof, CertificateConfig | None):
            raise InputError(
                f"proof must be an hs.CertificateConfig, as in hs.CertificateConfig(draws=500), got {proof!r}"
            )
        return proof or cls()
