"""The fifteen claims of the paper, the rules by which they are judged, what was found of each, and both as Markdown.

`python -m hopscope.paper.claims README.md docs/claims.md NAME=claims.json ...` writes them into pages (`make claims`).
"""

from __future__ import annotations

import sys
import textwrap
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

from hopscope.errors import UNTOUCHED, InputError
from hopscope.records import convert, read_json, sealed_table, write_json, write_text
from hopscope.words import markdown_table

Verdict = Literal["reproduced", "not reproduced", "inconclusive", "not run"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

_OF_THE_RULE = ("title", "paper", "unit", "rule")
"""Fields of a row of `claims.json` that follow from its claim."""


@dataclass(frozen=True)
class Rule:
    """What the paper claims, and how it is judged.

    Attributes:
        title: the claim.
        number: the number to meet.
        where: the section or figure of the paper.
        unit: what n counts.
        rule: when the claim is reproduced, when it is not, and when the data do not say.
    """

    title: str
    number: str
    where: str
    unit: str
    rule: str

    @property
    def paper(self) -> str:
        """The number to meet, and the section or figure that has it."""
        return f"{self.number} ({self.where})"


def _rules() -> Mapping[str, Rule]:
    claims = tomllib.loads((files("hopscope.paper") / "templates" / "claims.toml").read_text(encoding="utf-8"))
    return {id: Rule(**{**fields, "rule": fields["rule"].replace("\n", " ")}) for id, fields in claims.items()}


RULES = _rules()
"""The rules by claim, in the paper's order. No figure values beyond these numbers are public."""


@dataclass(frozen=True)
class Finding:
    """What was found about one claim.

    Args:
        id: the claim, C1 to C15.
        verdict: one of `VERDICTS`.
        observed: the numbers found, in words; never empty where something ran.
        n: how many models, runs, pairs or questions the verdict rests on; the rule's `unit` says which.
        interval: the interval of what was found, in words, or as lowest and highest value; None where nothing ran.
        scale: how large the study was, beginning with the preset's name: `laptop: D = 3, 1..4 layers x 2 seeds`.
        reason: why it is inconclusive, or not run; empty elsewhere.
        run: the folder that holds the evidence, relative to the report's; None where there is none.

    Raises:
        InputError: an unknown claim, a verdict without its numbers, or an inconclusive one without its reason.
    """

    id: str
    verdict: Verdict
    observed: str = ""
    n: int = 0
    interval: str | tuple[float, float] | None = None
    scale: str = ""
    reason: str = ""
    run: str | None = None

    def __post_init__(self) -> None:
        if self.id not in RULES:
            raise InputError(f"a claim must be one of C1 to C{len(RULES)}, got {self.id!r}")
        needed = {"inconclusive": ("reason",), "not run": ()}.get(self.verdict, ("observed", "scale", "n", "interval"))
        if missing := [name for name in needed if not getattr(self, name)]:
            raise InputError(f"{self.id} is judged {self.verdict!r}, so it needs {', '.join(missing)}")

    @property
    def claim(self) -> Rule:
        """What the paper claims, and how it is judged."""
        return RULES[self.id]

    def to_json(self) -> dict[str, Any]:
        """The row of `claims.json`: what was found, what the paper says, and the rule."""
        return {"id": self.id, **{name: getattr(self.claim, name) for name in _OF_THE_RULE}, **asdict(self)}


def in_folder(folder: str, found: Iterable[Finding]) -> list[Finding]:
    """The findings, with the folder that holds their evidence."""
    return [finding if finding.verdict == "not run" else replace(finding, run=folder) for finding in found]


def complete(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """The fifteen rows in order; claims that nobody judged are `not run`."""
    by_claim = {finding.id: finding for finding in found}
    return tuple(by_claim.get(claim) or Finding(claim, "not run") for claim in RULES)


def write_claims(path: Path, claims: Iterable[Finding]) -> None:
    """Write `claims.json`: a list of rows, each with the checksum of all of them.

    Raises:
        InputError: see `check_replaces_claims`.
    """
    check_replaces_claims(path)
    write_json(path, sealed_table([claim.to_json() for claim in claims]))


def check_replaces_claims(path: Path) -> None:
    """Check that a table of claims to be written would replace nothing, or only another table of claims.

    Raises:
        InputError: something else is there, or something that cannot be read.
    """
    rows = read_json(path, "a table of claims") if path.exists() else []
    if not isinstance(rows, list) or not all(isinstance(row, dict) and str(row.get("id")) in RULES for row in rows):
        raise InputError(f"{path} is not a table of claims and is not replaced; choose another folder")


def read_claims(path: Path) -> tuple[Finding, ...]:
    """Read `claims.json`. What the paper says and the rules are today's.

    Raises:
        InputError: the file is missing or damaged.
    """
    rows = read_json(path, "a table of claims")
    try:
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise InputError("it holds no list of objects")
        content = [{name: value for name, value in row.items() if name != "checksum"} for row in rows]
        if rows != sealed_table(content):
            raise InputError("its content does not fit its checksum")
        found = [{name: value for name, value in row.items() if name not in _OF_THE_RULE} for row in content]
        return complete(convert(row, Finding, "a row", complete=True) for row in found)
    except InputError as error:
        raise InputError(f"{path} is not a table of claims, or damaged: {error}; {UNTOUCHED}") from None


def verdict_table(tables: Mapping[str, Sequence[Finding]]) -> str:
    """A row for each claim, a column a preset: the verdict with its n, or the reason why there is none, in Markdown."""
    rows = (
        [claim, rule.title, *(_cell(table[place]) for table in tables.values())]
        for place, (claim, rule) in enumerate(RULES.items())
    )
    return markdown_table(["", "claim", *tables], rows)


def _cell(finding: Finding) -> str:
    from hopscope.benchmark.results import markdown

    if finding.verdict in ("inconclusive", "not run"):
        return finding.verdict + (f": {markdown(finding.reason.partition(': ')[0])}" if finding.reason else "")
    return f"**{finding.verdict}**, n = {finding.n}"


def rule_texts() -> str:
    """Every claim with the paper's number, what n counts, and its rule, in Markdown."""
    return "\n".join(
        f"**{claim}** {rule.title}  \n*{rule.paper}; n counts {rule.unit}*\n\n"
        f"{textwrap.fill(rule.rule, 120, break_long_words=False, break_on_hyphens=False)}\n"
        for claim, rule in RULES.items()
    )


def between_marks(text: str, name: str, made: str) -> str:
    """The text with `made` between the two marks of that name.

    Raises:
        InputError: the text does not have both marks, once each.
    """
    first, last = f"<!-- {name}: made by `make claims` -->", f"<!-- end of {name} -->"
    if text.count(first) != 1 or text.count(last) != 1:
        raise InputError(f"the text must have each of the marks {first} and {last} once")
    before, _, rest = text.partition(first)
    return f"{before}{first}\n{made}{last}{rest.partition(last)[2]}"


def main(arguments: Sequence[str]) -> None:
    """Write both into their pages: the README, the page of rules, then `name=claims.json` for every column."""
    readme, page = map(Path, arguments[:2])
    columns = (column.partition("=") for column in arguments[2:])
    tables = {name: read_claims(Path(file)) for name, _, file in columns}
    for path, name, made in ((readme, "claims", verdict_table(tables)), (page, "rules", rule_texts())):
        write_text(path, between_marks(path.read_text(encoding="utf-8"), name, made))


if __name__ == "__main__":
    main(sys.argv[1:])
