"""What was found about the paper's fifteen claims: the rows of the report's table, and of `claims.json`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from hopscope.errors import UNTOUCHED, InputError
from hopscope.files import read_json, write_json
from hopscope.paper.rules import RULES, Rule
from hopscope.records import convert, sealed_table

Verdict = Literal["reproduced", "not reproduced", "inconclusive", "not run"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

_WHAT = "a table of claims"
_OF_THE_RULE = ("title", "paper", "unit", "rule")
"""Fields of a row that follow from its claim."""


@dataclass(frozen=True)
class Finding:
    """What was found about one claim.

    Args:
        id: the claim, C1 to C15.
        verdict: one of `VERDICTS`.
        ours: the numbers found, in words; never empty where something ran.
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
    ours: str = ""
    n: int = 0
    interval: str | tuple[float, float] | None = None
    scale: str = ""
    reason: str = ""
    run: str | None = None

    def __post_init__(self) -> None:
        if self.id not in RULES:
            raise InputError(f"a claim must be one of C1 to C{len(RULES)}, got {self.id!r}")
        if self.verdict == "inconclusive" and not self.reason:
            raise InputError(f"{self.id} is judged inconclusive, so reason must say why, got nothing")
        if self.verdict in ("reproduced", "not reproduced"):
            missing = [name for name in ("ours", "scale", "n", "interval") if not getattr(self, name)]
            if missing:
                raise InputError(f"{self.id} is judged {self.verdict!r}, so it needs {', '.join(missing)}")

    @property
    def claim(self) -> Rule:
        """What the paper claims, and how it is judged."""
        return RULES[self.id]

    def to_json(self) -> dict[str, Any]:
        """The row of `claims.json`: what was found, what the paper says, and the rule."""
        claim = self.claim
        said = {"title": claim.title, "paper": claim.paper, "unit": claim.unit, "rule": claim.rule}
        return {"id": self.id, **said, **asdict(self)}


def in_folder(folder: str, found: Iterable[Finding]) -> list[Finding]:
    """The findings, with the folder that holds their evidence."""
    return [finding if finding.verdict == "not run" else replace(finding, run=folder) for finding in found]


def complete(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """The fifteen rows in order; claims that nobody judged are `not run`.

    Raises:
        InputError: there are two findings for one claim.
    """
    by_claim: dict[str, Finding] = {}
    for finding in found:
        if finding.id in by_claim:
            raise InputError(f"{finding.id} was judged twice, {by_claim[finding.id].ours!r} and {finding.ours!r}")
        by_claim[finding.id] = finding
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
    if not path.exists():
        return
    rows = read_json(path, _WHAT)
    if not isinstance(rows, list) or not all(isinstance(row, dict) and str(row.get("id")) in RULES for row in rows):
        raise InputError(f"{path} is not {_WHAT}, which would replace it; it was left untouched, choose another folder")


def read_claims(path: Path) -> tuple[Finding, ...]:
    """Read `claims.json`. What the paper says and the rules are today's.

    Raises:
        InputError: the file is missing or damaged.
    """
    rows = read_json(path, _WHAT)
    try:
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise InputError("it holds no list of objects")
        content = [{name: value for name, value in row.items() if name != "checksum"} for row in rows]
        if rows != sealed_table(content):
            raise InputError("its content does not fit its checksum")
        found = [{name: value for name, value in row.items() if name not in _OF_THE_RULE} for row in content]
        return complete(convert(row, Finding, "a row", complete=True) for row in found)
    except InputError as error:
        raise InputError(f"{path} is not {_WHAT}, or damaged: {error}; {UNTOUCHED}") from None
