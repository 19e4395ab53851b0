"""Do the six checks refuse false circuits, and pass true ones?

False circuits of eleven kinds (`studies.calibration.kinds`) and true circuits are planted in models whose circuit is
known. They are checked like any other circuit, on the usual number of sequences, with fresh sequences and draws each
time. Nine models are built by hand, of one, two and three hops. The others are trained: two hops, three layers, the
laptop's recipe, seeds 1100 to 1103. A trained model is used if a quick search finds a certified circuit without groups
and helpers in it. Seeds 1102 and 1103 were added when the circuit of seed 1101 turned out not to be certified, so that
60 circuits of each kind can be planted; 54 circuits of seed 1100 had been checked by then.

Circuits of each kind are planted, model after model, until 60 of them have a label or each model has had 15 (a trained
model: 30). Models of three hops get no more circuits after three rounds. Trained models come last, and get fewer
circuits if time runs out. These two limits were set when the cost was known. The only outcomes known at that time were
those of a trial of 36 circuits.

Losses on sequences that no check uses decide, with a margin and with own patterns, whether a planted circuit is false
of its model. A wrong path can be as good as the right one if its key holds the same symbol. Circuits that are as good
as the true one, and circuits within the margin, are counted and left out. For imposed patterns, trained models whose
true circuit does not pass are also left out.

False circuits: confirmed if the upper end of the 95% Clopper-Pearson interval of the share that passes, over all kinds,
is below `FALSE_PASSES`. Each kind is also reported with its own interval. True circuits of models built by hand:
confirmed if at least `TRUE_PASSES` of them pass and the lower end of the interval is above 90%; refuted if the upper
end is below `TRUE_PASSES`. True circuits of trained models are reported but not judged, because these circuits were
chosen for being certified.

    python -m studies calibration runs/studies/calibration

`python tests/false_claims --circuits FOLDER` also uses imposed patterns, and stops at the first check that refuses.
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
"""The largest share of false circuits that may pass all checks, and the smallest share of true circuits that must."""

Refused = Callable[[Any, Sequence[Any], float, int], Mapping[str, tuple[str, ...]]]
"""Takes a model, a circuit, the loss threshold and a seed; returns, by patterns, the checks that refuse the circuit."""


def by_own_patterns(model: Any, circuit: Sequence[Any], max_loss: float, seed: int) -> Mapping[str, tuple[str, ...]]:
    """Return the checks that refuse a circuit, with own patterns. Only one random circuit is drawn for comparison."""
    checked = model.check(circuit, max_loss=max_loss, seed=seed, proof=hs.CertificateConfig(draws=1), progress=False)
    return {"own": checked.failed}


@dataclass(frozen=True)
class CalibrationStudy:
    """The settings of the calibration study.

    Attributes:
        recipe: the recipe of the trained models.
        built: hops and seed of each model built by hand.
        trained: the seeds of the trained models.
        kinds: the kinds of circuits to plant.
        each: the number of circuits of each kind that should have a label.
        most: the most circuits of a kind to plant in a model built by hand; a trained model gets twice that number.
        deep_rounds: the most circuits of a kind to plant in a model of three hops, for which checks cost most.
        max_loss: the highest loss that a circuit may have.
        search: the settings of the search for the circuits of trained models.
        refused: the function that returns the checks that refuse a circuit.
    """

    recipe: hs.Recipe
    built: tuple[tuple[int, int], ...] = tuple(
        (hops, seed) for hops, seeds in ((1, 3), (2, 4), (3, 2)) for seed in range(160, 160 + seeds)
    )
    trained: tuple[int, ...] = tuple(range(1100, 1104))
    kinds: tuple[str, ...] = tuple(KINDS)
    each: int = 60
    most: int = 15
    deep_rounds: int = 3
    max_loss: float = 0.05
    search: Search = field(default_factory=Search)
    refused: Refused = by_own_patterns

    @property
    def setups(self) -> list[hs.Setup]:
        """The runs of the trained models, one per seed."""
        problem = hs.RetrievalProblem(hops=2)
        return [hs.Setup(f"trained/{seed}", problem, self.recipe, (seed,)) for seed in self.trained]


@dataclass(frozen=True)
class Certified:
    """A planted circuit, its label, and the checks that refused it.

    Attributes:
        model: the name of the model that it was planted in.
        kind: the kind of circuit that was planted.
        description: what was changed in the circuit or the model.
        label: the measured label.
        refused: the checks that refuse it, by patterns (`own` or `imposed`); empty if `counts` is False.
    """

    model: str
    kind: str
    description: str
    label: Label
    refused: Mapping[str, tuple[str, ...]]

    @property
    def counts(self) -> bool:
        """Whether the label is as planted: `true` for the kind `true`, `false` for all other kinds."""
        return self.label == ("true" if self.kind == "true" else "false")


@dataclass(frozen=True)
class Cell:
    """The counts of one kind of circuit, in models of one origin, with own or imposed patterns.

    Attributes:
        origin: `built` or `trained`.
        patterns: `own` or `imposed`.
        kind: the kind.
        planted: the number of circuits planted.
        n: the number of planted circuits whose label is as planted.
        passed: the number of these `n` circuits that pass all checks.
        refused: the number of these `n` circuits that each check refuses.
        passes: for each false circuit that passes, the model and what was changed; empty for true circuits.
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
        """Return the counts of the planted circuits of one kind."""
        counted = [circuit for circuit in planted if circuit.counts and patterns in circuit.refused]
        passed = [circuit for circuit in counted if not circuit.refused[patterns]]
        refused = Counter(check for circuit in counted for check in circuit.refused[patterns])
        said = tuple(f"{circuit.model}: {circuit.description}" for circuit in passed if kind != "true")
        return cls(origin, patterns, kind, len(planted), len(counted), len(passed), dict(refused), said)


@dataclass(frozen=True)
class CalibrationResult:
    """All counts, and the number of trained models that circuits were planted in (`trained`, out of `of`)."""

    cells: tuple[Cell, ...]
    trained: int
    of: int

    def among(self, origin: str, patterns: str) -> list[Cell]:
        """Return the cells of models of one origin, with own or imposed patterns."""
        return [cell for cell in self.cells if (cell.origin, cell.patterns) == (origin, patterns)]


def standard(recipe: hs.Recipe) -> CalibrationStudy:
    """Return the study of a recipe, with three layers."""
    return CalibrationStudy(replace(recipe, layers=3))


def quick(recipe: hs.Recipe) -> CalibrationStudy:
    """Return a tiny version, which trains nothing and only shows that the study runs."""
    return CalibrationStudy(recipe, ((1, 0),), (), ("true", "missing"), 1, 1, search=HASTY)


def run(study: CalibrationStudy, folder: Path, work: Work) -> CalibrationResult:
    """Plant and check the circuits that are not done yet; each circuit has its own file under `folder / runs`."""
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
    """Plant at most `most` circuits of each kind in each model of one origin, and return their counts."""
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
    """Whether a trained model has a certified circuit without groups and helpers, as planting needs."""
    circuit = circuit_at(path, None, study.search)
    return bool(circuit and circuit.certified and not circuit.groups and not circuit.helpers)


def certify(study: CalibrationStudy, where: tuple[Any, ...], kind: str, number: int, folder: Path) -> None:
    """Plant, label and record a circuit, and check it if its label counts; record null if it cannot be planted."""
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
    """Whether the true circuit of a trained model passes with the given patterns (`own` or `imposed`)."""
    host = _host(*where)
    return not study.refused(host.model, host.parts(host.circuit), study.max_loss, 0)[patterns]


@lru_cache(maxsize=1)
def _host(*where: Any) -> Host:
    """Return the built model for (hops, seed), or the trained model for (its run folder, all run folders, search)."""
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
    """Judge whether few false circuits pass and whether most true circuits pass."""
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
    """Return a Markdown table of the cells: how many circuits pass, and which checks refuse the rest."""
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
