"""The claims distilled from the paper, and what was found of each, in two columns."""

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
"""What is said in general; by `general` where it is a share of cases."""

ALWAYS = 0.9
"""What surely holds of a larger share of cases than this, with 95% confidence, holds in general."""

_OUTCOME = re.compile(r"yes|no|\d+ of \d+|theorem, checked|not run")
_TEMPLATES = Path(str(files("hopscope.paper") / "templates"))
STORED = _TEMPLATES / "stored.json"
"""Where the package has what the stored runs show (`make claims`)."""


@dataclass(frozen=True)
class Claim:
    """What the paper claims.

    Attributes:
        title: the claim.
        number: the paper's number.
        where: the section or figure of the paper.
        case: what a case of the second column is, and when it is as claimed.
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
"""Fields of a row of `claims.json` that follow from the others."""


@dataclass(frozen=True)
class Finding:
    """What was found about one claim: as the paper did it, and in general.

    Args:
        id: the claim, one of `CLAIMS`.
        as_the_paper: with the paper's own models, by its measure and sentence: `yes`, `no`, `2 of 3`, `theorem,
            checked`, `not run`.
        numbers: our numbers by that measure, in words, to be read beside the paper's.
        reason: one sentence: why it is `no`, or why a column is not run.
        in_general: what is said in general.
        share: how many cases are as claimed, and how many there are; the claim's `case` says of what.
        spread: the distribution over these cases, in words.
        scale: how large the study was, beginning with the preset's name: `laptop: D = 3, 1..4 layers x 2 seeds`.
        run: the folder that holds the evidence, relative to the report's; None where there is none.

    Raises:
        InputError: an unknown claim or outcome, or a column without its numbers.
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
        """What the paper claims."""
        return CLAIMS[self.id]

    @property
    def known(self) -> bool:
        """Whether either column says something."""
        return not self.as_the_paper == self.in_general == NOT_RUN

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95% (Clopper-Pearson) interval of the share."""
        return clopper_pearson(*self.share) if self.share else None

    @property
    def share_in_words(self) -> str:
        """The share with its interval: `6 of 10 (26% to 88%)`; empty where there is none."""
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
        """The first column in words: `2 of 3: 0.005, 0.059, 0.019`."""
        return ": ".join(part for part in (self.as_the_paper, self.numbers) if part)

    @property
    def general_column(self) -> str:
        """The second column in words: `open, 6 of 10 (26% to 88%): 0.005 to 0.6`."""
        shown = ", ".join(part for part in (self.in_general, self.share_in_words) if part)
        return ": ".join(part for part in (shown, self.spread) if part)

    def to_json(self) -> dict[str, Any]:
        """The row of `claims.json`: the claim, the paper's number, and both columns."""
        claim = {"title": self.claim.title, "paper": f"{self.claim.number} ({self.claim.where})"}
        return {"id": self.id, **claim, "case": self.claim.case, **asdict(self), "interval": self.interval}


FirstColumn = tuple[str, str, str]
"""`as_the_paper`, `numbers` and `reason` of a finding."""


def yes_or_no(asked: bool, met: bool, numbers: str, why_not: str) -> FirstColumn:
    """The first column of a claim that is met or not; empty where it was not asked of the paper's own models."""
    if not asked:
        return NOT_RUN, "", ""
    return ("yes", numbers, "") if met else ("no", numbers, why_not)


def general(
    claim: str, successes: int, cases: int, first: FirstColumn = (NOT_RUN, "", ""), *, spread: str = "", scale: str = ""
) -> Finding:
    """A finding whose second column is a share of cases.

    It holds where the lower 95% Clopper-Pearson bound is `ALWAYS` at least, which takes 36 of 36; it does not where the
    upper one is below; else it is open. Without cases it is not run.
    """
    if not cases:
        return Finding(claim, *first, scale=scale)
    low, high = clopper_pearson(successes, cases)
    said: General = "holds" if low >= ALWAYS else "does not hold" if high < ALWAYS else "open"
    return Finding(claim, *first, said, (successes, cases), "" if spread == first[1] else spread, scale)


def in_folder(folder: str, found: Iterable[Finding]) -> list[Finding]:
    """The findings, with the folder that holds their evidence."""
    return [replace(finding, run=folder) if finding.known else finding for finding in found]


def complete(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """A row for each claim, in order; claims that nobody judged are not run."""
    by_claim = {finding.id: finding for finding in found}
    return tuple(by_claim.get(claim) or Finding(claim) for claim in CLAIMS)


def write_claims(path: Path, claims: Iterable[Finding]) -> None:
    """Write `claims.json`, a list of rows, each with the checksum of all of them; see `check_replaces_claims`."""
    check_replaces_claims(path)
    write_json(path, sealed_table([claim.to_json() for claim in claims]))


def check_replaces_claims(path: Path) -> None:
    """Check that a table of claims to be written would replace nothing, or only another table of claims.

    Raises:
        InputError: something else is there, or something that cannot be read.
    """
    rows = read_json(path, "a table of claims") if path.exists() else []
    if not isinstance(rows, list) or not all(isinstance(row, dict) and str(row.get("id")) in CLAIMS for row in rows):
        raise InputError(f"{path} is not a table of claims and is not replaced; choose another folder")


def read_claims(path: Path) -> tuple[Finding, ...]:
    """Read `claims.json`. What the paper says, and what a case is, are today's.

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
    """What the stored runs show, the largest first: those of the paper's scale where a claim was asked there."""
    return read_claims(STORED)


def claim_lines(claims: Sequence[Finding]) -> list[str]:
    """The table at the end of `hopscope reproduce`: claim, this run, and the stored runs, a line each."""
    known = {finding.id: finding.short for finding in stored()}
    rows = [("", "claim", "this run", "stored runs, at the paper's scale where there are such")]
    for row in claims:
        rows.append((row.id, textwrap.shorten(row.claim.title, 46, placeholder=" ..."), row.short, known[row.id]))
    return [f"{id:<4}{title:<48}{now:<32}{before}".rstrip() for id, title, now, before in rows]
