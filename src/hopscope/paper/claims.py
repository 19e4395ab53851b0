"""The claims of the paper, C1 to C15, and what was found of each: the rows of the report's table.

A study judges claims and gives findings; `complete` lays them into the fifteen rows, so that what nobody ran is shown
as such. `claims.json` holds the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from hopscope.errors import InputError
from hopscope.files import read_json, write_json

Verdict = Literal["reproduced", "not reproduced", "not run"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

Interval = str | tuple[float, float] | None
"""How far `ours` can be trusted: in words, as lowest and highest, or None where nothing is random."""

SCALES = ("laptop", "paper")
"""Scales of a study, the weaker first: a preset's name, with which the `scale` of its findings begins."""


@dataclass(frozen=True)
class Row:
    """What the paper claims: the claim, the number to meet, and where it stands."""

    title: str
    number: str
    where: str


ROWS: Mapping[str, Row] = {
    "C1": Row(
        "With t < log3(2D) layers, D hops cannot be solved",
        "no D solved in fewer layers; simulated for D = 1..64 at least",
        "Theorem 1",
    ),
    "C2": Row(
        "Information in a residual stream stays one contiguous run of length <= 3^t + 1",
        "no exception; tested by simulation",
        "Lemmas 1 to 3, Appendix B",
    ),
    "C3": Row(
        "Without the implicit curriculum, training fails even at D = 3",
        "final validation loss > 0.7 in 100% of runs, 1..8 layers x 8 seeds",
        "Section 7.2",
    ),
    "C4": Row(
        "Later hops are harder and need more layers (D = 5, with the implicit curriculum)",
        "partial loss by layers; no numbers published",
        "Section 7.2, Figure 4 right",
    ),
    "C5": Row(
        "Hops are learned in order",
        "partial loss falls below 0.5 for x1 first, then x2, and so on, in 100% of runs with the curriculum",
        "Section 7.2",
    ),
    "C6": Row(
        "Transformers A, B and C (12 layers, 1 head, D = 3) learn the task",
        "validation MSE < 0.01",
        "Section 8.2",
    ),
    "C7": Row("Few heads matter", "4 heads in each of A, B, C; 3 would suffice", "Section 8.2"),
    "C8": Row(
        "The first relevant head ties the second to the first member of each pair", "in all of A, B, C", "Section 8.2"
    ),
    "C9": Row("Beyond the first head, the three circuits differ", "A, B and C compared", "Section 8.2"),
    "C10": Row("The circuit alone solves the task", "MSE < 0.05 with everything else ablated", "Appendix E"),
    "C11": Row(
        "Every path of the circuit is needed",
        "MSE 0.17 to 0.89 with one path ablated; 0.05 to 0.10 with the first useful layer made uniform",
        "Appendix E",
    ),
    "C12": Row(
        "Transformer D (24 layers, D = 4) learns the task, and its circuit alone solves it",
        "validation MSE 0.031; circuit alone 0.045",
        "Section 9.2",
    ),
    "C13": Row(
        "Heads emerge one by one, in order",
        "a plateau of about 450 epochs, B first, then C, D, E, the last much later; "
        "the attention of the 13 paths crosses 0.5 in that order",
        "Section 9.2, Figure 7, Appendix D",
    ),
    "C14": Row(
        "Language models solve the problem untuned",
        "equations near perfect for D <= 5; the other four formulations high",
        "Figure 2",
    ),
    "C15": Row("Random guessing sets the floor", "1/4 for formulations 1 to 4, 1/16 for formulation 5", "Figure 2"),
}
"""The fifteen claims by id, in the paper's order. No figure values beyond these numbers are public."""


@dataclass(frozen=True)
class Finding:
    """What a study found of one claim.

    Args:
        id: C1 to C15.
        ours: the numbers found, in words; never empty where something ran.
        interval: of `ours`; see `Interval`.
        scale: how large the study was, beginning with the preset's name: `laptop: D = 3, 1..4 layers x 2 seeds`.
        verdict: one of `VERDICTS`.
        run: the folder that holds the evidence, relative to the report's; None where there is none.

    Raises:
        InputError: an unknown claim or verdict, a verdict without its number or scale, or no interval.
    """

    id: str
    ours: str
    interval: Interval
    scale: str
    verdict: Verdict
    run: str | None = None

    def __post_init__(self) -> None:
        if self.id not in ROWS:
            raise InputError(f"a claim's id must be one of C1 to C{len(ROWS)}, got {self.id!r}")
        if self.verdict not in VERDICTS:
            raise InputError(f"the verdict on {self.id} must be one of {', '.join(VERDICTS)}, got {self.verdict!r}")
        for name in ("ours", "scale"):
            value = getattr(self, name)
            if not isinstance(value, str) or (not value and self.verdict != "not run"):
                raise InputError(
                    f"{self.id} is judged {self.verdict!r}, so {name} must say in words what was found and "
                    f"at what scale, got {value!r}"
                )
        if not (self.run is None or isinstance(self.run, str)):
            raise InputError(f"run of {self.id} must be the path of a folder or None, got {self.run!r}")
        object.__setattr__(self, "interval", _interval(self.id, self.interval))


@dataclass(frozen=True)
class Claim:
    """A row of the table: a claim of the paper beside what was found of it. `ours` is empty where nothing ran."""

    id: str
    title: str
    paper: str
    ours: str
    interval: Interval
    scale: str
    verdict: Verdict
    run: str | None


def complete(found: Iterable[Finding | Claim | Mapping[str, Any]], order: Sequence[str] = SCALES) -> list[Claim]:
    """The fifteen rows in order, `not run` where nobody judged.

    Args:
        found: findings, rows of another table, or either as a plain mapping (`interval` and `run` may be absent).
        order: names of scales, the weaker first. Of several findings for one claim, the one whose scale begins with
            the latest name is kept, whatever its verdict; what did not run yields to what did.

    Raises:
        InputError: a finding is malformed, or two for one claim cannot be told apart by `order`.
    """
    best: dict[str, Finding] = {}
    for given in found:
        finding = _finding(given)
        rival = best.get(finding.id)
        best[finding.id] = finding if rival is None else _stronger(finding, rival, order)
    return [_row(claim, best.get(claim)) for claim in ROWS]


def write_claims(path: Path, claims: Iterable[Claim]) -> None:
    """Write `claims.json`: a list of objects with the fields of `Claim`."""
    write_json(path, [asdict(claim) for claim in claims])


def read_claims(path: Path) -> list[Claim]:
    """Read `claims.json`; rows that it lacks come back as `not run`, titles and the paper's numbers are our own.

    Raises:
        InputError: the file is missing or damaged.
    """
    rows = read_json(path, "a table of claims")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path} is not a table of claims (a list of objects); it was left untouched")
    try:
        return complete(rows)
    except InputError as error:
        raise InputError(f"{path} is not a table of claims: {error}; it was left untouched") from None


def _finding(given: Finding | Claim | Mapping[str, Any]) -> Finding:
    if isinstance(given, Finding):
        return given
    values = asdict(given) if isinstance(given, Claim) else dict(given)
    names = [field.name for field in fields(Finding)]
    unknown = sorted(set(values) - set(names) - {"title", "paper"})
    missing = sorted(set(names) - {"interval", "run"} - set(values))
    if unknown or missing:
        raise InputError(
            f"a finding must have the fields {', '.join(names)}; "
            f"unknown: {', '.join(map(str, unknown)) or 'none'}, missing: {', '.join(missing) or 'none'}"
        )
    return Finding(**{name: values.get(name) for name in names})  # type: ignore[arg-type]  # checked when made


def _stronger(one: Finding, other: Finding, order: Sequence[str]) -> Finding:
    ranked = [(_strength(finding, order), finding) for finding in (one, other)]
    ranked.sort(key=lambda pair: pair[0])
    (weak, _), (strong, kept) = ranked
    if weak == strong:
        raise InputError(
            f"{one.id} was judged twice ({one.scale!r} and {other.scale!r}); keep one, or let each scale begin with "
            f"one of {', '.join(order) or 'the names in order'}"
        )
    return kept


def _strength(finding: Finding, order: Sequence[str]) -> int:
    if finding.verdict == "not run":
        return -2
    return max((rank for rank, name in enumerate(order) if finding.scale.startswith(name)), default=-1)


def _row(claim: str, finding: Finding | None) -> Claim:
    row = ROWS[claim]
    finding = finding or Finding(claim, ours="", interval=None, scale="", verdict="not run")
    return Claim(
        id=claim,
        title=row.title,
        paper=f"{row.number} ({row.where})",
        ours=finding.ours,
        interval=finding.interval,
        scale=finding.scale,
        verdict=finding.verdict,
        run=finding.run,
    )


def _interval(claim: str, value: Any) -> Interval:
    if value is None or isinstance(value, str):
        return value
    try:
        low, high = (float(end) for end in value)
    except (TypeError, ValueError):
        low, high = math.nan, math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise InputError(f"the interval of {claim} must be words, lowest and highest, or None, got {value!r}")
    return low, high
