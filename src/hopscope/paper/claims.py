"""The claims distilled from the paper, and our finding on each claim, in two columns."""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from hopscope.errors import UNTOUCHED, InputError
from hopscope.records import convert, read_json, sealed_table, write_json
from hopscope.statistics import clopper_pearson

NOT_RUN: Literal["not run"] = "not run"
THEOREM: Literal["theorem, checked"] = "theorem, checked"
General = Literal["holds", "does not hold", "open", "theorem, checked", "not run"]
"""The verdict of the second column; if the finding is a share of cases, `general` decides the verdict."""

ALWAYS = 0.9
"""A claim holds in general if, with 95% confidence, it holds in at least this share of all cases."""

_OUTCOME = re.compile(r"yes|no|\d+ of \d+|theorem, checked|not run")
_TEMPLATES = Path(str(files("hopscope.paper") / "templates"))
STORED = _TEMPLATES / "stored.json"
"""The package's file of findings from the stored runs, which `make claims` writes."""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    Attributes:
        title: the claim in one sentence.
        number: the number that the paper gives.
        where: the section or figure of the paper.
        case: what counts as a case in the second column, and when a case is as claimed.
    """

    title: str
    number: str
    where: str
    case: str


CLAIMS: Mapping[str, Claim] = {
    id: Claim(**{**fields, "case": fields["case"].replace("\n", " ")})
    for id, fields in tomllib.loads((_TEMPLATES / "claims.toml").read_text(encoding="utf-8")).items()
}
"""The claims by id. No numbers of the paper's figures beyond these are public."""

_OF_THE_CLAIM = ("title", "paper", "case", "interval")
"""Fields of a row of `claims.json` that follow from the other fields."""


@dataclass(frozen=True)
class Finding:
    """The finding on one claim: as the paper did it, and in general.

    Args:
        id: the claim, one of `CLAIMS`.
        as_the_paper: the outcome with the paper's own models and measure: `yes`, `no`, `2 of 3`, `theorem, checked` or
            `not run`.
        numbers: our numbers by the paper's measure, as text, to compare with the paper's numbers.
        reason: one sentence on why the outcome is `no`, or why a column is not run.
        in_general: the verdict in general.
        share: the number of cases that are as claimed, and the number of all cases.
        spread: the distribution over the cases, as text.
        scale: the size of the study, beginning with the preset's name: `laptop: D = 3, 1..4 layers x 2 seeds`.
        run: the folder that holds the evidence, relative to the report's folder; None if there is no evidence.

    Raises:
        InputError: the claim or the outcome is unknown, or a column lacks its numbers.
    """

    id: str
    as_the_paper: str = NOT_RUN
    numbers: str = ""
    reason: str = ""
    in_general: General = NOT_RUN
    share: tuple[int, int] | None = None
    spread: str = ""
    scale: str = ""
    run: str | None = None

    def __post_init__(self) -> None:
        if self.id not in CLAIMS:
            raise InputError(f"a claim must be one of C1 to C{len(CLAIMS)}, got {self.id!r}")
        if not _OUTCOME.fullmatch(self.as_the_paper):
            raise InputError(f"an outcome must be yes, no, 2 of 3 or the like, got {self.as_the_paper!r}")
        needed = [] if self.as_the_paper == NOT_RUN else ["numbers", "scale"]
        needed += ["reason"] if self.as_the_paper == "no" else []
        needed += [] if self.in_general in (NOT_RUN, THEOREM) else ["scale"] if self.spread else ["share", "scale"]
        if missing := [name for name in needed if not getattr(self, name)]:
            raise InputError(f"{self.id} is {self.as_the_paper!r} and {self.in_general!r}; it needs {missing[0]}")

    @property
    def claim(self) -> Claim:
        """The claim of the paper."""
        return CLAIMS[self.id]

    @property
    def known(self) -> bool:
        """Whether at least one of the two columns has a result."""
        return not self.as_the_paper == self.in_general == NOT_RUN

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95% (Clopper-Pearson) interval of the share."""
        return clopper_pearson(*self.share) if self.share else None

    @property
    def share_in_words(self) -> str:
        """The share with its interval: `6 of 10 (26% to 88%)`; empty without a share."""
        if self.share is None:
            return ""
        low, high = clopper_pearson(*self.share)
        return f"{self.share[0]} of {self.share[1]} ({low:.0%} to {high:.0%})"

    @property
    def short(self) -> str:
        """Both columns in a few words: `1 of 3; does not hold, 1 of 10`."""
        share = f", {self.share[0]} of {self.share[1]}" if self.share else ""
        said = "" if self.in_general in (NOT_RUN, self.as_the_paper) else self.in_general + share
        return "; ".join(part for part in (self.as_the_paper.replace(NOT_RUN, ""), said) if part) or NOT_RUN

    @property
    def paper_column(self) -> str:
        """The first column as text: `2 of 3: 0.005, 0.059, 0.019`."""
        return ": ".join(part for part in (self.as_the_paper, self.numbers) if part)

    @property
    def general_column(self) -> str:
        """The second column as text: `open, 6 of 10 (26% to 88%): 0.005 to 0.6`."""
        shown = ", ".join(part for part in (self.in_general, self.share_in_words) if part)
        return ": ".join(part for part in (shown, self.spread) if part)

    def to_json(self) -> dict[str, Any]:
        """Return the row of `claims.json`: the claim, the paper's number, and both columns."""
        claim = {"title": self.claim.title, "paper": f"{self.claim.number} ({self.claim.where})"}
        return {"id": self.id, **claim, "case": self.claim.case, **asdict(self), "interval": self.interval}


FirstColumn = tuple[str, str, str]
"""The `as_the_paper`, `numbers` and `reason` of a finding."""


def yes_or_no(asked: bool, met: bool, numbers: str, why_not: str) -> FirstColumn:
    """Return the first column: `yes` or `no`, or `not run` if the paper's own models were not `asked`."""
    if not asked:
        return NOT_RUN, "", ""
    return ("yes", numbers, "") if met else ("no", numbers, why_not)


def general(
    claim: str, successes: int, cases: int, first: FirstColumn = (NOT_RUN, "", ""), *, spread: str = "", scale: str = ""
) -> Finding:
    """Return a finding whose second column is a share of cases.

    The claim holds if the lower 95% Clopper-Pearson bound is at least `ALWAYS`, which takes at least 36 cases. It does
    not hold if the upper bound is below `ALWAYS`. Otherwise, it is open. Without cases, the claim is not run.
    """
    if not cases:
        return Finding(claim, *first, scale=scale)
    low, high = clopper_pearson(successes, cases)
    said: General = "holds" if low >= ALWAYS else "does not hold" if high < ALWAYS else "open"
    return Finding(claim, *first, said, (successes, cases), "" if spread == first[1] else spread, scale)


def in_folder(folder: str, found: Iterable[Finding]) -> list[Finding]:
    """Return the findings with the folder that holds their evidence."""
    return [replace(finding, run=folder) if finding.known else finding for finding in found]


def complete(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return a finding for each claim, in order; claims without a finding are `not run`."""
    by_claim = {finding.id: finding for finding in found}
    return tuple(by_claim.get(claim) or Finding(claim) for claim in CLAIMS)


def write_claims(path: Path, claims: Iterable[Finding]) -> None:
    """Write `claims.json`, a list of rows that each hold the whole list's checksum; see `check_replaces_claims`."""
    check_replaces_claims(path)
    write_json(path, sealed_table([claim.to_json() for claim in claims]))


def check_replaces_claims(path: Path) -> None:
    """Check that a file at `path` can be replaced, because it is a table of claims or does not exist.

    Raises:
        InputError: the file is something else or damaged, or cannot be read.
    """
    if path.exists():
        read_claims(path)


def read_claims(path: Path) -> tuple[Finding, ...]:
    """Read `claims.json`; the paper's side of each claim is taken from `CLAIMS`, not from the file.

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
        found = [{name: value for name, value in row.items() if name not in _OF_THE_CLAIM} for row in content]
        return complete(convert(row, Finding, "a row", complete=True) for row in found)
    except InputError as error:
        raise InputError(f"{path} is not a table of claims, or damaged: {error}; {UNTOUCHED}") from None


def stored() -> tuple[Finding, ...]:
    """Return the findings from the stored runs, at the paper's scale if a claim was tested at that scale."""
    return read_claims(STORED)


def claim_lines(claims: Sequence[Finding]) -> list[str]:
    """Return the lines of the last table of `hopscope reproduce`: each claim in this run and in the stored runs."""
    known = {finding.id: finding.short for finding in stored()}
    rows = [("", "claim", "this run", "stored runs (at the paper's scale if available)")]
    for row in claims:
        rows.append((row.id, textwrap.shorten(row.claim.title, 46, placeholder=" ..."), row.short, known[row.id]))
    return [f"{id:<4}{title:<48}{now:<32}{before}".rstrip() for id, title, now, before in rows]
