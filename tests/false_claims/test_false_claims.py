"""What `docs/claims.md` says of how often its rules are wrong is what they do, within the noise of few draws."""

from __future__ import annotations

from math import sqrt
from pathlib import Path

import pytest
from false_claims import HEADS, Case, cases

PAGE = (Path(__file__).parents[2] / "docs" / "claims.md").read_text()
DRAWS, TOLD_BY = 40, 250


def told(case: Case) -> list[float]:
    """The shares in the page's row of a case."""
    start = f"| {case.claim} | {case.data} | {case.n} |"
    (line,) = [line for line in PAGE.splitlines() if line.startswith(start)]
    return [int(cell.strip(" %")) / 100 for cell in line.removeprefix(start).rstrip("|").split("|")]


def test_the_page_has_a_row_for_each_case_and_no_other() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| C")]
    assert len(rows) == len(cases())
    for true, heads in HEADS.items():
        assert f"| {' | '.join(heads)} |" in PAGE
        assert all(len(told(case)) == len(heads) - 3 for case in cases() if case.true == true)


@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case.claim}, {case.data}, {case.n}")
def test_shares_are_as_told(case: Case) -> None:
    for share, found in zip(told(case), case.verdicts(DRAWS, seed=1), strict=True):
        likely = min(max(share, 0.02), 0.98)
        assert abs(found - share) < 4 * sqrt(likely * (1 - likely) * (1 / DRAWS + 1 / TOLD_BY)) + 0.005
