"""The outcome of the calibration: how often each part of a certificate passes circuits of each kind."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import get_args

from hopscope.circuits.checks import PARTS, CertificateConfig
from hopscope.records import RecordFormat, content_hash, plain
from hopscope.training.work import Work
from hopscope.words import markdown_table
from studies.calibration.hosts import MARGIN
from studies.calibration.kinds import Kind
from studies.calibration.study import FALSE_PASSES, PROOF, CalibrationResult, CalibrationStudy, run
from studies.tools.circuits import RULES


@dataclass(frozen=True)
class Count:
    """Counts of the circuits of one kind in the models of one family.

    Attributes:
        family: the family of models.
        planted: the kind of circuit.
        certified: how many of them have a label.
        every_part: how many passed every part.
        passed: how many passed each part.
    """

    family: str
    planted: Kind
    certified: int
    every_part: int
    passed: dict[str, int]


@dataclass(frozen=True)
class CalibrationSummary:
    """The outcome of the calibration.

    Attributes:
        proof: the proof behind every certificate.
        margin: the margin of the labels.
        counts: the counts by family and kind.
        left_out: how many planted circuits are equivalent to a true one, and how many lie within the margin.
        false_passes: how many false circuits passed every part.
        false: how many false circuits there are.
        upper: the upper end of the 95% interval of the share that passed.
        holds: whether `upper` is below `FALSE_PASSES`.
        seconds: processor time of all certificates together.
        rules: the version of what the certificates asked, see `hopscope.circuits.checks.certificate.RULES`; None in
            records that do not say.
    """

    proof: CertificateConfig
    margin: float
    counts: tuple[Count, ...]
    left_out: dict[str, int]
    false_passes: int
    false: int
    upper: float
    holds: bool
    seconds: int
    rules: int | None = None

    def tells_of(self, *, planned: bool) -> set[str]:
        """A name for every certificate, with a hash of its proof and rules."""
        by = content_hash(plain(self.proof) if self.rules is None else [plain(self.proof), self.rules])
        return {f"{by} {one.family} {one.planted} {n}" for one in self.counts for n in range(one.certified)}


_FORM = RecordFormat(CalibrationSummary, "hopscope calibration summary", "what the calibration came to")


def kept_summary(folder: Path) -> CalibrationSummary | None:
    """The summary last written to a folder; None if there is none.

    Raises:
        InputError: the record is damaged, or is another's.
    """
    path = folder / "calibration.json"
    if not path.exists():
        return None
    return _FORM.read(path)


def keep_summary(folder: Path, found: CalibrationSummary) -> None:
    """Write the summary to a folder."""
    _FORM.write(folder / "calibration.json", found)


def summarised(study: CalibrationStudy, folder: Path, work: Work) -> CalibrationSummary:
    """Run the study, with its certificates in `folder`, and summarise it."""
    return summary(run(study, folder, work), study.proof)


def summary(result: CalibrationResult, proof: CertificateConfig = PROOF) -> CalibrationSummary:
    """What `results/` keeps: counts by kind and family, and how often each part passed."""
    families = sorted({one.family for one in result.certified})
    kinds: tuple[Kind, ...] = get_args(Kind)
    counts = []
    for family, kind in product(families, kinds):
        chosen = result.of(kind, family)
        if chosen:
            passed = {part: sum(part not in one.failed for one in chosen) for part in PARTS}
            every = sum(not one.failed for one in chosen)
            counts.append(Count(family, kind, len(chosen), every, passed))
    left_out = {name: sum(one.label == name for one in result.certified) for name in ("equivalent", "undecided")}
    seconds = round(sum(one.seconds for one in result.certified))
    false_passes, false, high = result.false_passes
    return CalibrationSummary(
        proof, MARGIN, tuple(counts), left_out, false_passes, false, high, high < FALSE_PASSES, seconds, RULES
    )


def table(found: CalibrationSummary) -> str:
    """Markdown tables of the share of circuits that pass, a column for each kind and a row for each part; hand-built
    and trained models apart."""
    tables = []
    for title, of_training in (("hand-built", False), ("trained", True)):
        rows = [count for count in found.counts if count.family.startswith("trained") == of_training]
        if not rows:
            continue
        kinds = [kind for kind in get_args(Kind) if any(count.planted == kind for count in rows)]
        of = {kind: [count for count in rows if count.planted == kind] for kind in kinds}
        number = {kind: sum(count.certified for count in of[kind]) for kind in kinds}
        parts = []
        for part in (*PARTS, "every part"):
            cells = []
            for kind in kinds:
                passed = sum(one.every_part if part == "every part" else one.passed[part] for one in of[kind])
                cells.append(f"{passed / number[kind]:.0%}")
            parts.append([part, *cells])
        tables.append(markdown_table([title, *(f"{kind} ({number[kind]})" for kind in kinds)], parts))
    return "\n".join(tables)
