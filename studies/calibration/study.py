"""Do the six checks refuse false circuits, and pass true ones?

False circuits of many kinds (`studies.calibration.kinds`) are planted in models built by hand and checked like any
other, on fresh sequences and with fresh draws each time; so are the true ones. The study reports how often circuits of
each kind are certified, and which checks refuse the others. Confirmed: of the false ones at most `FALSE_PASSES` pass,
by the upper end of the 95% Clopper-Pearson interval, and most true ones do.

Whether a planted circuit is false is decided by losses on sequences that no check uses, with a margin: a wrong
path may be as good as the right one where its key holds the same symbol. Circuits that are as good, and those within
the margin, are counted and left out.

    python -m studies calibration runs/studies/calibration
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from zlib import crc32

import torch

import hopscope as hs
from hopscope.statistics import clopper_pearson
from studies.calibration.kinds import KINDS, Host, Label, label, plant
from studies.tools import records
from studies.tools.judgements import Judgement, most_of
from studies.tools.study import Study
from studies.tools.work import Work

FALSE_PASSES = 0.05
"""The share of false circuits that may pass all checks."""


@dataclass(frozen=True)
class CalibrationStudy:
    """What is planted and where.

    Attributes:
        built: hops and seed of each model.
        kinds: the kinds of circuits to plant.
        each: how many circuits of each kind in each model.
        max_loss: the highest loss that a circuit may have.
        config: how much is measured for the checks: less than the default.
    """

    built: tuple[tuple[int, int], ...] = tuple((hops, seed) for seed in range(160, 163) for hops in (1, 2, 3))
    kinds: tuple[str, ...] = tuple(KINDS)
    each: int = 4
    max_loss: float = 0.05
    config: hs.CertificateConfig = field(
        default_factory=lambda: hs.CertificateConfig(sequences=96, deciding=512, few=32, draws=100, halves=16)
    )


@dataclass(frozen=True)
class Certified:
    """One planted circuit and what became of it.

    Attributes:
        hops: D of the model.
        seed: the seed of the model.
        kind: the kind of circuit that was planted.
        number: its number among the circuits of its kind in this model, from 0.
        description: what was done to the circuit.
        label: whether it is truly a circuit.
        failed: the checks that it did not pass; empty also for a label that is left out.
    """

    hops: int
    seed: int
    kind: str
    number: int
    description: str
    label: Label
    failed: tuple[str, ...]


@dataclass(frozen=True)
class CalibrationResult:
    """All planted circuits."""

    certified: tuple[Certified, ...]

    def of(self, kind: str) -> list[Certified]:
        """The circuits of a kind whose label is the one that the kind is planted to have."""
        return [
            found
            for found in self.certified
            if found.kind == kind and found.label == ("true" if kind == "true" else "false")
        ]


def standard(_: hs.Recipe) -> CalibrationStudy:
    """The study as it is; it trains nothing, so the recipe is not used."""
    return CalibrationStudy()


def quick(_: hs.Recipe) -> CalibrationStudy:
    """A tiny version that only shows that the study runs."""
    few = hs.CertificateConfig(sequences=48, deciding=48, few=16, draws=20, halves=4)
    return CalibrationStudy(((1, 0),), ("true", "missing"), 1, config=few)


def run(study: CalibrationStudy, folder: Path, work: Work) -> CalibrationResult:
    """Plant and certify what is not done yet; each result is a file of its own in `folder / runs`."""
    runs = folder / "runs"
    jobs = [
        (study, hops, seed, kind, number, runs / f"{hops}-hops-{seed}-{kind.replace(' ', '-')}-{number}.json")
        for number in range(study.each)
        for hops, seed in study.built
        for kind in study.kinds
    ]
    work.each("planted circuits", certify, [job for job in jobs if not job[-1].exists()])
    done = [records.read(job[-1], Certified | None) for job in jobs if job[-1].exists()]  # type: ignore[arg-type]
    return CalibrationResult(tuple(record for record in done if record is not None))


def certify(study: CalibrationStudy, hops: int, seed: int, kind: str, number: int, record: Path) -> None:
    """Plant and label a circuit and, where its label counts, certify it; null is written where none can be planted."""
    host = _host(hops, seed)
    drawn = crc32(f"{hops} {seed} {kind} {number}".encode())
    planted = plant(kind, host, torch.Generator().manual_seed(drawn))
    if planted is None:
        records.write(record, None)
        return
    truth = label(kind, host, planted, study.max_loss)
    failed: tuple[str, ...] = ()
    if truth in ("true", "false"):
        model = planted.model or host.model
        circuit = model.check(planted.circuit, max_loss=study.max_loss, seed=drawn, proof=study.config)
        failed = circuit.failed
    records.write(record, Certified(hops, seed, kind, number, planted.description, truth, failed))


@lru_cache(maxsize=1)
def _host(hops: int, seed: int) -> Host:
    return Host.build(hops, seed)


def judge(found: CalibrationResult) -> list[Judgement]:
    """Judge whether few false circuits pass, and most true ones."""
    false = [circuit for kind in KINDS if kind != "true" for circuit in found.of(kind)]
    passed, n = sum(not circuit.failed for circuit in false), len(false)
    hypothesis = f"at most {FALSE_PASSES:.0%} of false circuits pass"
    if not n:
        few = Judgement(hypothesis, "not run")
    else:
        low, high = clopper_pearson(passed, n)
        verdict = "confirmed" if high < FALSE_PASSES else "refuted" if low > FALSE_PASSES else "inconclusive"
        few = Judgement(hypothesis, verdict, f"{passed} of {n} (at most {high:.1%})", n)  # type: ignore[arg-type]
    return [few, most_of("most true circuits pass", [not circuit.failed for circuit in found.of("true")])]


def table(found: CalibrationResult) -> str:
    """A Markdown table: for each kind, how many have a label, how many pass, and the checks that refuse the others."""
    rows = []
    for kind in KINDS:
        chosen = found.of(kind)
        failed = sorted({check for circuit in chosen for check in circuit.failed})
        parts = ", ".join(f"{check} {sum(check in circuit.failed for circuit in chosen)}" for check in failed)
        planted = sum(circuit.kind == kind for circuit in found.certified)
        rows.append((kind, planted, len(chosen), sum(not circuit.failed for circuit in chosen), parts or "-"))
    return records.markdown_table(("kind", "planted", "with a label", "certified", "refused by"), rows)


STUDY = Study(
    "calibration",
    "How often do the checks pass a false circuit?",
    CalibrationResult,
    standard,
    quick,
    run,
    judge,
    table,
)
