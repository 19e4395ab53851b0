"""How often a rule of `docs/claims.md` is wrong: made-up data, drawn again and again, put to the judges.

A case is data of a size that the presets have, in which a claim is false in some plausible way, or true with noise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hopscope.paper.claims import Verdict

Draw = Callable[[np.random.Generator], Verdict]
"""The verdict on a claim, of one draw of the data."""

HEADS = {
    False: ("claim", "false data", "n", "reproduced"),
    True: ("claim", "true data", "n", "not reproduced", "reproduced"),
}
"""The heads of both tables of `docs/claims.md`, by whether the claim is true of the data."""


@dataclass(frozen=True)
class Case:
    """One kind of data.

    Attributes:
        claim: `C1` to `C15`.
        data: what the data are like, in words.
        n: how much of it there is, in words.
        true: whether the claim is true of what the data are drawn from.
        draw: judges one draw.
    """

    claim: str
    data: str
    n: str
    true: bool
    draw: Draw

    def verdicts(self, draws: int, seed: int = 0) -> tuple[float, ...]:
        """The shares of draws with the verdicts that the head of its table names.

        The draws follow from the seed and the case's own words, whatever other cases there are.
        """
        rng = np.random.default_rng([seed, *f"{self.claim} {self.data} {self.n}".encode()])
        found = Counter[str](self.draw(rng) for _ in range(draws))
        return tuple(found[verdict] / draws for verdict in HEADS[self.true][3:])


def cases() -> list[Case]:
    """All cases, in the order of the claims."""
    import false_answers
    import false_depths
    import false_models

    return [*false_depths.CASES, *false_models.CASES, *false_answers.CASES]


def table(true: bool, draws: int, seed: int = 0) -> str:
    """One of both tables, in Markdown, the shares to a whole percent."""
    heads = HEADS[true]
    rows = [heads, ("---",) * 3 + ("---:",) * len(heads[3:])]
    for one in cases():
        if one.true == true:
            rows.append((one.claim, one.data, one.n, *(f"{share:.0%}" for share in one.verdicts(draws, seed))))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
