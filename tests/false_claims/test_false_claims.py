"""How often rules are wrong is what their pages say, within the noise of few draws."""

from __future__ import annotations

from pathlib import Path

import pytest
from false_claims import Case, cases
from false_studies import cases as cases_of_studies

DOCS = Path(__file__).parents[2] / "docs"
CLAIMS, STUDIES = (DOCS / "claims.md").read_text(), (DOCS / "studies" / "how-often-wrong.md").read_text()
DRAWS = 40
EVERY = [*((CLAIMS, case) for case in cases()), *((STUDIES, case) for case in cases_of_studies())]
QUICK = 30
"""One case in so many is tested without `-m slow`."""


@pytest.mark.parametrize(
    ("page", "every"), [(CLAIMS, cases()), (STUDIES, cases_of_studies())], ids=["claims", "studies"]
)
def test_the_page_has_a_row_for_each_case_and_no_other(page: str, every: list[Case]) -> None:
    names = {case.claim for case in every}
    rows = [line for line in page.splitlines() if line.startswith(tuple(f"| {name} | " for name in names))]
    assert len(rows) == len(every)
    for case in every:
        assert f"| {' | '.join(case.heads)} |" in page
        assert len(case.on_page(page)) == len(case.heads) - 3


@pytest.mark.parametrize(
    ("page", "case"),
    [
        pytest.param(
            page, case, id=f"{case.claim}, {case.data}, {case.n}", marks=[pytest.mark.slow] if place % QUICK else []
        )
        for place, (page, case) in enumerate(EVERY)
    ],
)
def test_shares_of_other_draws_are_those_of_the_page(page: str, case: Case) -> None:
    assert case.agrees(page, DRAWS)
