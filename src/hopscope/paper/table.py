"""The claims as a table in Markdown, a column for each preset: what the README says between its two marks.

python -m hopscope.paper.table README.md laptop=results/laptop/claims.json paper=results/paper/claims.json
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hopscope.benchmark.tables import markdown as markdown_text
from hopscope.errors import InputError
from hopscope.files import write_text
from hopscope.paper.claims import Claim, read_claims
from hopscope.paper.rules import RULES
from hopscope.words import markdown_table

FIRST, LAST = "<!-- claims: made by `make claims` -->", "<!-- end of claims -->"
"""The marks around the table."""


def markdown(tables: Mapping[str, Sequence[Claim]]) -> str:
    """A row for each claim: the verdict with its n, or the reason why there is none."""
    rows = (
        [claim, row.title, *(_cell(table[place]) for table in tables.values())]
        for place, (claim, row) in enumerate(RULES.items())
    )
    return markdown_table(["", "claim", *tables], rows)


def _cell(claim: Claim) -> str:
    if claim.verdict in ("inconclusive", "not run"):
        return claim.verdict + (f": {markdown_text(claim.reason.partition(': ')[0])}" if claim.reason else "")
    return f"**{claim.verdict}**, n = {claim.n}"


def between_marks(text: str, table: str) -> str:
    """The text with the table between its marks.

    Raises:
        InputError: the text does not have both marks, once each.
    """
    if text.count(FIRST) != 1 or text.count(LAST) != 1:
        raise InputError(f"the text must have each of the marks {FIRST} and {LAST} once")
    before, _, rest = text.partition(FIRST)
    return f"{before}{FIRST}\n{table}{LAST}{rest.partition(LAST)[2]}"


def main(arguments: Sequence[str]) -> None:
    """Write the table into a file: its path, then `name=claims.json` for every column."""
    path = Path(arguments[0])
    tables = {name: read_claims(Path(file)) for name, _, file in (one.partition("=") for one in arguments[1:])}
    write_text(path, between_marks(path.read_text(encoding="utf-8"), markdown(tables)))


if __name__ == "__main__":
    main(sys.argv[1:])
