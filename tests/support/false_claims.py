"""How often a rule of `docs/claims.md` is wrong: made-up data, drawn again and again, put to the judges.

A case is data of a size that the presets have, in which a claim is false in some plausible way, or true with noise. For
the rules of our own studies the same is done in `false_studies`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

Draw = Callable[[np.random.Generator], str]
"""What is said of a claim in general, of one draw of the data."""

DRAWS_OF_PAGES = 250
"""How often each kind of data was drawn for the pages."""

HEADS = {
    False: ("claim", "false data", "n", "holds"),
    True: ("claim", "true data", "n", "does not hold", "holds"),
}
"""The heads of both tables of `docs/claims.md`, by whether the claim is true of the data."""


@dataclass(frozen=True)
class Case:
    """One kind of data.

    Attributes:
        claim: one of `hopscope.paper.claims.CLAIMS`.
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
        found = Counter(self.draw(rng) for _ in range(draws))
        return tuple(found[verdict] / draws for verdict in self.heads[3:])

    @property
    def heads(self) -> tuple[str, ...]:
        """The head of the table of the case."""
        return HEADS[self.true]

    def on_page(self, page: str) -> list[float]:
        """The shares in the row that a page has of the case."""
        start = f"| {self.claim} | {self.data} | {self.n} |"
        (line,) = [line for line in page.splitlines() if line.startswith(start)]
        return [int(cell.strip(" %")) / 100 for cell in line.removeprefix(start).rstrip("|").split("|")]

    def agrees(self, page: str, draws: int) -> bool:
        """Whether the shares of other draws are what the page says, within the noise of both."""
        return all(
            abs(found - share) < 4 * sqrt(likely * (1 - likely) * (1 / draws + 1 / DRAWS_OF_PAGES)) + 0.005
            for share, found in zip(self.on_page(page), self.verdicts(draws, seed=1), strict=True)
            for likely in [min(max(share, 0.02), 0.98)]
        )


def cases() -> list[Case]:
    """All cases, in the order of the claims."""
    import false_answers
    import false_depths
    import false_models

    return [*false_depths.CASES, *false_models.CASES, *false_answers.CASES]


def table(cases: Sequence[Case], draws: int, seed: int = 0) -> str:
    """A table of cases that are all false, or all true, in Markdown, the shares to a whole percent."""
    heads = cases[0].heads
    rows = [heads, ("---",) * 3 + ("---:",) * len(heads[3:])]
    for case in cases:
        rows.append((case.claim, case.data, case.n, *(f"{share:.0%}" for share in case.verdicts(draws, seed))))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
