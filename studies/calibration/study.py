"""Do the six checks refuse false circuits, and pass true ones?

False circuits of eleven kinds (`studies.calibration.kinds`), and the true ones, are planted in models whose circuit is
known, and checked like any other, on as many sequences as any other, with fresh sequences and draws each time. Models
are built by hand (nine of one, two and three hops) or trained: two hops, three layers, the laptop's recipe, seeds 1100
and 1101, those of them in which a quick search finds a certified circuit without groups and helpers. Of each kind
circuits are planted, model after model, until 60 have a label, or 15 a model have been planted (thirty a trained one).
After three rounds models of three hops get no more, and trained ones come last and get fewer where time does not
suffice: both were decided when the cost had been seen, and of the outcomes only those of a trial of 36 circuits.

Whether a planted circuit is false of its model is decided by losses on sequences that no check uses, with a margin and
with own patterns: a wrong path may be as good as the right one where its key holds the same symbol. Circuits that are
as good, and those within the margin, are counted and left out. So are, for imposed patterns, trained models whose true
circuit does not pass by them.

Confirmed: of the false circuits at most `FALSE_PASSES` pass, by the upper end of the 95% Clopper-Pearson interval over
all kinds; each kind is reported with its own. Of the true circuits of models built by hand at least `TRUE_PASSES` pass,
and the lower end is above 90%; refuted where the upper end is below `TRUE_PASSES`. For trained models true passes are
reported, not judged: their circuit was chosen for being certified.

    python -m studies calibration runs/studies/calibration

By imposed patterns too, and each circuit only until a check refuses it: `python tests/false_claims --circuits FOLDER`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from zlib import crc32

import torch

import hopscope as hs
from hopscope.statistics import clopper_pearson
from studies.calibration.kinds import KINDS, Host, Label, label, plant
from studies.tools import records
from studies.tools.circuits import HASTY, Search, circuit_at, search_circuit
from studies.tools.conditions import finished
from studies.tools.judgements import Judgement
from studies.tools.study import Study
from studies.tools.work import Work

FALSE_PASSES, TRUE_PASSES = 0.05, 0.95
"""The share of false circuits that may pass all checks, and that of true ones that must."""

Refused = Callable[[Any, Sequence[Any], float, int], Mapping[str, tuple[str, ...]]]
"""Given a model, a circuit, the threshold and a seed: by patterns, own or imposed, the checks that refuse it."""


def by_own_patterns(model: Any, circuit: Sequence[Any], max_loss: float, seed: int) -> Mapping[str, tuple[str, ...]]:
    """The checks that refuse a circuit, with the model's own patterns; of random circuits its card has only one."""
    checked = model.check(circuit, max_loss=max_loss, seed=seed, proof=hs.CertificateConfig(draws=1), progress=False)
    return {"own": checked.failed}


@dataclass(frozen=True)
class CalibrationStudy:
    """What is planted and where.

    Attributes:
        recipe: the recipe of the trained models.
        built: hops and seed of each model built by hand.
        trained: the seeds of the trained models.
        kinds: the kinds of circuits to plant.
        each: how many circuits of each kind are to have a label.
        most: how many are planted at most in each model built by hand; in a trained one twice as many.
        deep_rounds: how many are planted in each model built by hand of three hops, where a check costs most.
        max_loss: the highest loss that a circuit may have.
        search: how circuits of trained models are searched for.
        refused: which checks refuse a circuit.
    """

    recipe: hs.Recipe
    built: tuple[tuple[int, int], ...] = tuple(
        (hops, seed) for hops, seeds in ((1, 3), (2, 4), (3, 2)) for seed in range(160, 160 + seeds)
    )
    trained: tuple[int, ...] = tuple(range(1100, 1102))
    kinds: tuple[str, ...] = tuple(KINDS)
    each: int = 60
    most: int = 15
    deep_rounds: int = 3
    max_loss: float = 0.05
    search: Search = field(default_factory=Search)
    refused: Refused = by_own_patterns

    @property
    def setups(self) -> list[hs.Setup]:
        """The trained models, a run each."""
        problem = hs.RetrievalProblem(hops=2)
        return [hs.Setup(f"trained/{seed}", problem, self.recipe, (seed,)) for seed in self.trained]


@dataclass(frozen=True)
class Certified:
    """One planted circuit and what became of it.

    Attributes:
        model: the model that it was planted in.
        kind: the kind of circuit that was planted.
        description: what was done to the circuit.
        label: whether it is truly a circuit.
        refused: by patterns, own or imposed, the checks that refuse it; empty where its label does not count.
    """

    model: str
    kind: str
    description: str
    label: Label
    refused: Mapping[str, tuple[str, ...]]

    @property
    def counts(self) -> bool:
        """Whether its label is the one that its kind is planted to have."""
        return self.label == ("true" if self.kind == "true" else "false")


@dataclass(frozen=True)
class Cell:
    """The circuits of one kind, in models of one origin, by own or by imposed patterns.

    Attributes:
        origin: `built` or `trained`.
        patterns: `own` or `imposed`.
        kind: the kind.
        planted: how many were planted.
        n: how many of them have a label.
        passed: how many of these pass.
        refused: how many of the others are refused by each check.
        passes: the model of each that passes, and what was done to the circuit; not of the true ones.
    """

    origin: str
    patterns: str
    kind: str
    planted: int
    n: int
    passed: int
    refused: Mapping[str, int]
    passes: tuple[str, ...]

    @classmethod
    def of(cls, origin: str, patterns: str, kind: str, planted: Sequence[Certified]) -> Cell:
        """What became of the circuits of a kind."""
        counted = [circuit for circuit in planted if circuit.counts and patterns in circuit.refused]
        passed = [circuit for circuit in counted if not circuit.refused[patterns]]
        refused = Counter(check for circuit in counted for check in circuit.refused[patterns])
        said = tuple(f"{circuit.model}: {circuit.description}" for circuit in passed if kind != "true")
        return cls(origin, patterns, kind, len(planted), len(counted), len(passed), dict(refused), said)


@dataclass(frozen=True)
class CalibrationResult:
    """What became of all planted circuits, and how many trained models they were planted in, of how many."""

    cells: tuple[Cell, ...]
    trained: int
    of: int

    def among(self, origin: str, patterns: str) -> list[Cell]:
        """The cells of models of one origin, by own or by imposed patterns."""
        return [cell for cell in self.cells if (cell.origin, cell.patterns) == (origin, patterns)]


def standard(recipe: hs.Recipe) -> CalibrationStudy:
    """The study as it is."""
    return CalibrationStudy(replace(recipe, layers=3))


def quick(recipe: hs.Recipe) -> CalibrationStudy:
    """A tiny version that only shows that the study runs; nothing is trained."""
    return CalibrationStudy(recipe, ((1, 0),), (), ("true", "missing"), 1, 1, search=HASTY)


def run(study: CalibrationStudy, folder: Path, work: Work) -> CalibrationResult:
    """Plant and check what is not done yet; each circuit is a file of its own in `folder / runs`."""
    runs = folder / "runs"
    built = _planted(study, "built", study.built, study.most, runs, work)
    work.train(study.setups, runs)
    trained = [run.path for run in finished(study.setups, runs).values()]
    work.each("circuits", search_circuit, [(path, None, study.search) for path in trained])
    usable = [path for path in trained if (path / "circuit.json").exists() and _usable(study, path)]
    models = [(path, tuple(trained), study.search) for path in usable]
    cells = [*built, *_planted(study, "trained", models, 2 * study.most, runs, work)]
    return CalibrationResult(tuple(cells), len(usable), len(trained))


def _planted(
    study: CalibrationStudy, origin: str, models: Sequence[tuple[Any, ...]], most: int, runs: Path, work: Work
) -> list[Cell]:
    """What becomes of circuits planted in models of one origin, at most so many of a kind in each."""
    done: dict[str, list[Certified]] = {kind: [] for kind in study.kinds}
    for number in range(most):
        wanted = [kind for kind in study.kinds if sum(circuit.counts for circuit in done[kind]) < study.each]
        chosen = [model for model in models if model[0] != 3 or number < study.deep_rounds]
        jobs = [(study, model, kind, number, runs / "circuits") for model in chosen for kind in wanted]
        work.each(f"{origin} models, round {number + 1}", certify, jobs)
        for _, model, kind, *_ in jobs:
            if (record := _record(runs / "circuits", model, kind, number)).exists():
                found = records.read(record, Certified | None)  # type: ignore[arg-type]
                done[kind] += [found] if found else []
    patterns = dict.fromkeys(name for circuits in done.values() for circuit in circuits for name in circuit.refused)
    return [Cell.of(origin, name, kind, circuits) for name in patterns for kind, circuits in done.items()]


def _usable(study: CalibrationStudy, path: Path) -> bool:
    """Whether a circuit was found in a trained model in which others can be planted."""
    circuit = circuit_at(path, None, study.search)
    return bool(circuit and circuit.certified and not circuit.groups and not circuit.helpers)


def certify(study: CalibrationStudy, where: tuple[Any, ...], kind: str, number: int, folder: Path) -> None:
    """Plant and label a circuit and, where its label counts, check it; null is written where none can be planted."""
    record = _record(folder, where, kind, number)
    if record.exists():
        return
    host = _host(*where)
    drawn = crc32(record.stem.encode())
    planted = plant(kind, host, torch.Generator().manual_seed(drawn))
    if planted is None:
        records.write(record, None)
        return
    found = Certified(_name(where), kind, planted.description, label(kind, host, planted, study.max_loss), {})
    if found.counts:
        circuit = host.parts(planted.circuit)
        refused = study.refused(planted.model or host.model, circuit, study.max_loss, drawn)
        asked = [name for name in refused if host.others is None or name == "own" or _true_passes(study, where, name)]
        found = replace(found, refused={name: refused[name] for name in asked})
    records.write(record, found)


@lru_cache(maxsize=64)
def _true_passes(study: CalibrationStudy, where: tuple[Any, ...], patterns: str) -> bool:
    """Whether the true circuit of a trained model passes by those patterns."""
    host = _host(*where)
    return not study.refused(host.model, host.parts(host.circuit), study.max_loss, 0)[patterns]


@lru_cache(maxsize=1)
def _host(*where: Any) -> Host:
    """The model built by hand of so many hops and a seed; or the trained one of a run, among other runs."""
    if len(where) == 2:
        return Host.build(*where)
    path, every, search = where
    others = [circuit_at(other, None, search) for other in every if other != path]
    found = [other for other in others if other and other.found]
    return Host.trained(hs.Run(path)[0], circuit_at(path, None, search), found)


def _name(where: tuple[Any, ...]) -> str:
    return f"{where[0]}-hops-{where[1]}" if len(where) == 2 else f"trained-{where[0].name}"


def _record(folder: Path, where: tuple[Any, ...], kind: str, number: int) -> Path:
    return folder / f"{_name(where)}-{kind.replace(' ', '-')}-{number}.json"


def judge(found: CalibrationResult) -> list[Judgement]:
    """Judge whether few false circuits pass, and most true ones."""
    judgements = []
    for origin, patterns in dict.fromkeys((cell.origin, cell.patterns) for cell in found.cells):
        cells, where = found.among(origin, patterns), f"{origin} models, {patterns} patterns"
        for true in (False, True):
            passed, n = (sum(getattr(c, of) for c in cells if (c.kind == "true") is true) for of in ("passed", "n"))
            if origin == "built" or not true:
                judgements.append(_judged(where, true, passed, n))
    return judgements


def _judged(where: str, true: bool, passed: int, n: int) -> Judgement:
    low, high = clopper_pearson(passed, n) if n else (0.0, 1.0)
    if true:
        said = f"{where}: at least {TRUE_PASSES:.0%} of true circuits pass"
        confirmed, refuted = passed >= TRUE_PASSES * n and low > 0.9, high < TRUE_PASSES
    else:
        said = f"{where}: at most {FALSE_PASSES:.0%} of false circuits pass"
        confirmed, refuted = high < FALSE_PASSES, low > FALSE_PASSES
    if not n:
        return Judgement(said, "not run")
    verdict = "confirmed" if confirmed else "refuted" if refuted else "inconclusive"
    return Judgement(said, verdict, f"{passed} of {n} ({low:.1%} to {high:.1%})", n)  # type: ignore[arg-type]


def table(found: CalibrationResult) -> str:
    """A Markdown table: for each kind, how many have a label, how many pass, and the checks that refuse the others."""
    rows = []
    for cell in found.cells:
        low, high = clopper_pearson(cell.passed, cell.n) if cell.n else (0.0, 1.0)
        refused = ", ".join(f"{check} {count}" for check, count in cell.refused.items())
        outcome = (cell.passed, f"{low:.1%} to {high:.1%}", refused or "-")
        rows.append((cell.origin, cell.patterns, cell.kind, cell.planted, cell.n, *outcome))
    headings = ("models", "patterns", "kind", "planted", "with a label", "certified", "interval (95%)", "refused by")
    return records.markdown_table(headings, rows)


STUDY = Study(
    "calibration",
    "How often do the checks pass a false circuit?",
    CalibrationResult,
    standard,
    quick,
    run,
    judge,
    table,
    recipe=hs.recipes.LAPTOP,
)
