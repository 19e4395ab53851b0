"""One part of a certificate, and all of them together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

Sense = Literal["natural", "strict"]
"""In which reading a circuit is certified. `natural`: its rows make their own patterns, everything else is off.
`strict`: its patterns are imposed, ones at the claimed keys and nothing elsewhere, and no row is left at its mean."""


RULES = 2
"""Version of what the parts ask, in every record; higher from each change on by which they refuse what they passed.

1: the first. 2: each key of a row with several is needed by itself; a strict row is switched off in the way that costs
least; parts that few sequences leave in doubt are measured on more; rows at themselves are taken away by `outside`;
untrained heads are drawn as the recipe draws them.
"""


PART_NAMES = (
    "harness",
    "sufficiency",
    "necessity",
    "minimality",
    "random_keys",
    "recovery",
    "families",
    "outside",
    "completeness",
    "deliverability",
    "untrained",
)
"""All parts, in the order in which a reader asks. A certificate that lacks one certifies nothing."""


@dataclass(frozen=True)
class Part:
    """One part.

    Attributes:
        passed: by its rule.
        says: what was seen, in one sentence.
        numbers: behind it, by name: numbers, text, and lists and objects of them.
        seed: of the fresh sequences and random draws.
    """

    passed: bool
    says: str
    numbers: Mapping[str, Any]
    seed: int = 0

    def seeded(self, seed: int) -> Part:
        """The same with its seed."""
        return replace(self, seed=seed)

    def to_json(self) -> dict[str, Any]:
        """As records have it: the numbers beside `passed`, `says` and `seed`."""
        return {"passed": self.passed, "says": self.says, **self.numbers, "seed": self.seed}

    @classmethod
    def from_json(cls, made: Mapping[str, Any]) -> Part:
        """What `to_json` gave."""
        numbers = {name: value for name, value in made.items() if name not in ("passed", "says", "seed")}
        return cls(made["passed"], made["says"], numbers, made["seed"])


@dataclass(frozen=True)
class Certificate:
    """Every part, in the order in which a reader asks.

    Attributes:
        sense: the reading that it is about.
        parts: by name.
    """

    sense: Sense
    parts: Mapping[str, Part]

    @property
    def failed(self) -> tuple[str, ...]:
        """The parts that did not pass."""
        return tuple(name for name, part in self.parts.items() if not part.passed)

    @property
    def passed(self) -> bool:
        """Whether every part is there and did."""
        return set(PART_NAMES) <= set(self.parts) and not self.failed

    def to_json(self) -> dict[str, dict[str, Any]]:
        """As records have it, and as it is read again: parts by name, lists for tuples."""
        made: dict[str, dict[str, Any]] = json.loads(json.dumps({n: part.to_json() for n, part in self.parts.items()}))
        return made


def tidy(value: float) -> float:
    """Six digits: more would be noise."""
    return float(f"{value:.6g}")
