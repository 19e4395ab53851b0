"""The claims in Markdown: their verdicts, a column a preset, in the README; their rules in `docs/claims.md`.

python -m hopscope.paper.table README.md docs/claims.md laptop=results/laptop/claims.json ...
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from hopscope.benchmark.results import markdown as markdown_text
from hopscope.errors import InputError
from hopscope.files import write_text
from hopscope.paper.claims import Finding, read_claims
from hopscope.paper.rules import RULES
from hopscope.words import markdown_table


def verdicts(tables: Mapping[str, Sequence[Finding]]) -> str:
    """A row for each claim: the verdict with its n, or the reason why there is none."""
    rows = (
        [claim, row.title, *(_cell(table[place]) for table in tables.values())]
        for place, (claim, row) in enumerate(RULES.items())
    )
    return markdown_table(["", "claim", *tables], rows)


def _cell(claim: Finding) -> str:
    if claim.verdict in ("inconclusive", "not run"):
        return claim.verdict + (f": {markdown_text(claim.reason.partition(': ')[0])}" if claim.reason else "")
    return f"**{claim.verdict}**, n = {claim.n}"


def rules() -> str:
    """Every claim with the paper's number, what n counts, and its rule."""
    return "\n".join(
        f"**{claim}** {row.title}  \n*{row.paper}; n counts {row.unit}*\n\n"
        f"{textwrap.fill(row.rule, 120, break_long_words=False, break_on_hyphens=False)}\n"
        for claim, row in RULES.items()
    )


def between_marks(text: str, what: str, made: str) -> str:
    """The text with `made` between the two marks of `what`.

    Raises:
        InputError: the text does not have both marks, once each.
    """
    first, last = f"<!-- {what}: made by `make claims` -->", f"<!-- end of {what} -->"
    if text.count(first) != 1 or text.count(last) != 1:
        raise InputError(f"the text must have each of the marks {first} and {last} once")
    before, _, rest = text.partition(first)
    return f"{before}{first}\n{made}{last}{rest.partition(last)[2]}"


def main(arguments: Sequence[str]) -> None:
    """Write both into their pages: the README, the page of rules, then `name=claims.json` for every column."""
    readme, page = map(Path, arguments[:2])
    tables = {
        name: read_claims(Path(file)) for name, _, file in (argument.partition("=") for argument in arguments[2:])
    }
    for path, what, made in ((readme, "claims", verdicts(tables)), (page, "rules", rules())):
        write_text(path, between_marks(path.read_text(encoding="utf-8"), what, made))


if __name__ == "__main__":
    main(sys.argv[1:])
