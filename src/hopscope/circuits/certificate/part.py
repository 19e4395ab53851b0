"""One part of a certificate, and all of them together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hopscope.checks import check_seed
from hopscope.errors import InputError

Sense = Literal["natural", "strict"]
"""The reading in which a circuit is certified. `natural`: its rows make their own patterns, everything else is off.
`strict`: its patterns are imposed, ones at the claimed keys and nothing elsewhere, and no row is left at its mean."""


RULES = 14
"""Version of what the parts ask, kept in every record; it goes up when they ask something else.

1: the first rules. 2: each key of a row with several must be needed by itself; a strict row is switched off in the way
that costs least; smaller parts that few sequences leave in doubt are measured on more; rows at themselves are taken
away by `outside`; untrained heads are drawn as the recipe draws them. 3: the part `places`. 4: the key of a row whose
form is a whole pattern must be needed by itself; a strict circuit has every row in use imposed; random circuits stand
on the circuit's background; `places` and `outside` decide on as many sequences as it takes to be sure; a position of no
chain attends to itself where a row is put at itself. 5: `completeness` asks for every key by itself, so that no other
key of its row may stand in for it. 6: and compares what the model loses without the key with what the circuit loses
without all that it says of it, so that a key which stands in may also be fed by the circuit. 7: `outside` takes away
the keys that rows attend to and the circuit does not name, for a row may look at its key for a part of the questions
alone; `sufficiency` holds the bar also where rows at their mean attend to their own chain as to any other. 8: and where
rows of which a natural circuit says only that they are as they are, helpers among them, look at all chains alike; and
the model itself does. 9: in text words of no chain, and other chains, look at the chain asked about as at any other
then; weights so sharp that nothing is left for other chains are spread over all; and `sufficiency` holds the bar where
rows that are uniform see other chains alone. 10: it holds the bar where they gather in rewired sequences instead (of a
module that does not show what attention writes, as by rules 9, which also refused heads that copy what they look at).
11: where no other chain is seen, a row that looks at all chains alike has nothing on its own (it kept what it had); and
all that it looks at is scaled then, so that what is left on itself does not tell how much it looked at its own. 12:
`outside` takes from rows that never tell their own chain from others what they could tell of it, and no longer where
they rest, by which it refused circuits of models that a head without its rest confuses. 13: each key must be needed
also where its row looks at the same role of other chains instead; else a row that rests at a key of its own chain,
where it reads nothing, or the same in every chain, was needed for it. 14: rows at their mean or positional mean gather
in rewired sequences as uniform ones do, and what all of them write is the average while the values of a pair go round
all chains: it says nothing of any chain, where the next chain's values would say something false.
"""


PART_NAMES = (
    "harness",
    "sufficiency",
    "necessity",
    "minimality",
    "random_keys",
    "places",
    "recovery",
    "families",
    "outside",
    "completeness",
    "deliverability",
    "untrained",
)
"""The names of all parts, in the order in which a reader asks for them."""

_SINCE = {"places": 3}
"""The first version of the rules that asks for a part; all other parts were always asked for."""


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
        """The part that `to_json` was given.

        Args:
            made: the part as it stands in a record.
            name: the name of the part.

        Raises:
            InputError: the part lacks its verdict or its sentence, or its seed is no seed.
        """
        passed, says, seed = made.get("passed"), made.get("says"), made.get("seed", 0)
        if not isinstance(passed, bool) or not isinstance(says, str):
            raise InputError(f"part {name!r} of the certificate lacks `passed` or `says`")
        check_seed(seed, f"seed of part {name!r} of the certificate")
        return cls(passed, says, {key: value for key, value in made.items() if key not in _OWN}, seed)


_OWN = ("passed", "says", "seed")
"""The fields of a part in records that are not its numbers."""


@dataclass(frozen=True)
class Certificate:
    """What proves a circuit: every part, in the order in which a reader asks for them.

        >>> circuit = run[0].circuit()  # a model of a few steps has no circuit
        >>> circuit.certificate.passed, circuit.certificate.failed
        (False, ('sufficiency',))

    Attributes:
        sense: the reading that it is about.
        parts: the parts by name; empty where there was nothing to certify.
        rules: version of what its parts ask, see `RULES`.

    Raises:
        InputError: the rules are of a newer hopscope.
    """

    sense: Sense
    parts: Mapping[str, Part] = field(default_factory=dict)
    rules: int = RULES

    def __post_init__(self) -> None:
        if not 1 <= self.rules <= RULES:
            raise InputError(f"rules must be from 1 to {RULES}, what this hopscope knows, got {self.rules}")

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
        """Whether every part that its rules ask for is there and passed; a certificate that lacks one does not pass."""
        asked = {name for name in PART_NAMES if _SINCE.get(name, 1) <= self.rules}
        return asked <= set(self.parts) and not self.failed

    def to_json(self) -> dict[str, dict[str, Any]]:
        """The certificate as records have it: parts by name."""
        return {name: part.to_json() for name, part in self.parts.items()}

    @classmethod
    def from_json(cls, sense: Sense, made: Mapping[str, Mapping[str, Any]], rules: int) -> Certificate:
        """The certificate that `to_json` was given, by the given rules.

        Raises:
            InputError: a part lacks its verdict, or the rules are of a newer hopscope.
        """
        return cls(sense, {name: Part.from_json(part, name) for name, part in made.items()}, rules)


def tidy(value: float) -> float:
    """A value rounded to six digits: more would be noise."""
    return float(f"{value:.6g}")
