"""How often a rule of our own studies is wrong: as `false_claims`, of results that no run came to.

The claim of a case is the study and the number of its rule, as the docstring of the study's module counts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from false_claims import Case

from studies.tools.judgements import Judgement

STUDY_HEADS = {
    False: ("rule", "false data", "n", "as asked"),
    True: ("rule", "true data", "n", "not as asked", "as asked"),
}
"""The heads of both tables of `docs/studies/index.md`, by whether what the rule asks is true of the data."""


@dataclass(frozen=True)
class StudyCase(Case):
    """One kind of data, made up for a rule of a study."""

    @property
    def heads(self) -> tuple[str, ...]:
        return STUDY_HEADS[self.true]


def verdict_on(asked: str, judgements: Sequence[Judgement]) -> str:
    """The verdict of the first judgement in whose claim these words stand."""
    return next(judgement.verdict for judgement in judgements if asked in judgement.asked)


def cases() -> list[Case]:
    """All cases, in the order of `docs/studies/index.md`."""
    import false_arms
    import false_seen
    import false_texts

    return [*false_arms.CASES, *false_seen.CASES, *false_texts.CASES]
