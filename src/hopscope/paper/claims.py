"""What was found about the paper's fifteen claims: the rows of the report's table, and of `claims.json`.

A section's `judge` gives findings; `complete` puts them into the fifteen rows, so that what nobody ran is shown as
such.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal, get_args

from hopscope.errors import UNTOUCHED, InputError
from hopscope.files import read_json, write_json
from hopscope.paper.rules import RULES
from hopscope.records import convert, sealed_table

Verdict = Literal["reproduced", "not reproduced", "inconclusive", "not run"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

_WHAT = "a table of claims"

FoundInterval = str | tuple[float, float] | None
"""The interval of what was found: in words, or as lowest and highest value; None where nothing ran."""


@dataclass(frozen=True)
class Finding:
    """What a study found about one claim.

    Args:
        claim: C1 to C15.
        verdict: one of `VERDICTS`.
        ours: the numbers found, in words; never empty where something ran.
        n: how many models, runs, pairs or questions the verdict rests on; `RULES` says which.
        interval: the interval of what was found; see `FoundInterval`.
        scale: how large the study was, beginning with the preset's name: `laptop: D = 3, 1..4 layers x 2 seeds`.
        rule: the rule by which it was judged; the claim's own in `RULES` where empty.
        reason: why it is inconclusive, or not run; empty elsewhere.
        run: the folder that holds the evidence, relative to the report's; None where there is none.

    Raises:
        InputError: an unknown claim or verdict, a verdict without its numbers, scale or interval, or an inconclusive
            one without its reason.
    """

    claim: str
    verdict: Verdict
    ours: str = ""
    n: int = 0
    interval: FoundInterval = None
    scale: str = ""
    rule: str = ""
    reason: str = ""
    run: str | None = None

    def __post_init__(self) -> None:
        if self.claim not in RULES:
            raise InputError(f"a claim must be one of C1 to C{len(RULES)}, got {self.claim!r}")
        if self.verdict not in VERDICTS:
            raise InputError(f"the verdict on {self.claim} must be one of {', '.join(VERDICTS)}, got {self.verdict!r}")
        object.__setattr__(self, "rule", self.rule or RULES[self.claim].rule)
        if self.verdict == "inconclusive" and not self.reason:
            raise InputError(f"{self.claim} is judged inconclusive, so reason must say why, got nothing")
        if self.verdict in ("reproduced", "not reproduced"):
            missing = [name for name in ("ours", "scale", "n", "interval") if not getattr(self, name)]
            if missing:
                raise InputError(f"{self.claim} is judged {self.verdict!r}, so it needs {', '.join(missing)}")


@dataclass(frozen=True)
class Claim:
    """A row of the table: a claim of the paper, and what was found about it. `ours` is empty where nothing ran."""

    id: str
    title: str
    paper: str
    ours: str
    n: int
    unit: str
    interval: FoundInterval
    scale: str
    verdict: Verdict
    reason: str
    rule: str
    run: str | None


def complete(found: Iterable[Finding]) -> list[Claim]:
    """The fifteen rows in order; claims that nobody judged are `not run`.

    Raises:
        InputError: there are two findings for one claim.
    """
    by_claim: dict[str, Finding] = {}
    for finding in found:
        if finding.claim in by_claim:
            raise InputError(f"{finding.claim} was judged twice, {by_claim[finding.claim].ours!r} and {finding.ours!r}")
        by_claim[finding.claim] = finding
    return [_row(by_claim.get(claim) or Finding(claim, "not run")) for claim in RULES]


def write_claims(path: Path, claims: Iterable[Claim]) -> None:
    """Write `claims.json`: a list of objects with the fields of `Claim`, each with the checksum of all of them.

    Raises:
        InputError: see `check_replaces_claims`.
    """
    check_replaces_claims(path)
    write_json(path, sealed_table([asdict(claim) for claim in claims]))


def check_replaces_claims(path: Path) -> None:
    """Check that a table of claims to be written would replace nothing, or only another table of claims.

    Raises:
        InputError: something else is there, or something that cannot be read.
    """
    if not path.exists():
        return
    rows = read_json(path, _WHAT)
    if not isinstance(rows, list) or not all(isinstance(row, dict) and str(row.get("id")) in RULES for row in rows):
        raise InputError(f"{path} is not {_WHAT}, which would replace it; it was left untouched, choose another folder")


def read_claims(path: Path) -> list[Claim]:
    """Read `claims.json`. Titles, units and the paper's numbers are taken from `RULES`.

    Raises:
        InputError: the file is missing or damaged.
    """
    rows = read_json(path, _WHAT)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path} is not {_WHAT} (a list of objects); it was left untouched")
    try:
        content = [{name: value for name, value in row.items() if name != "checksum"} for row in rows]
        if rows != sealed_table(content):
            raise InputError("its content does not fit its checksum")
        return complete(_finding(convert(row, Claim, "a row", complete=True)) for row in content)
    except InputError as error:
        raise InputError(f"{path} is not {_WHAT}, or damaged: {error}; {UNTOUCHED}") from None


def _finding(row: Claim) -> Finding:
    told = {field.name: getattr(row, field.name) for field in fields(Finding) if field.name != "claim"}
    return Finding(row.id, **told)


def _row(finding: Finding) -> Claim:
    row = RULES[finding.claim]
    return Claim(
        id=finding.claim,
        title=row.title,
        paper=f"{row.number} ({row.where})",
        ours=finding.ours,
        n=finding.n,
        unit=row.unit,
        interval=finding.interval,
        scale=finding.scale,
        verdict=finding.verdict,
        reason=finding.reason,
        rule=finding.rule,
        run=finding.run,
    )
