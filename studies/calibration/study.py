"""Does the certificate say no to false circuits, and yes to true ones?

False circuits of many kinds are planted in hand-built and in trained models and certified like any other, on fresh
sequences and with fresh draws each time; so are the true ones. For every part and kind the study reports how often the
part passes. A part that passes all false circuits is worth nothing; the whole certificate may pass at most
`FALSE_PASSES` of them.

Whether a planted circuit is false is decided by its loss on many sequences that no certificate sees, with a margin
(`labels.label`): a wrong path may be as good as the right one where its key holds the same symbol. Circuits that are
as good, and those within the margin, are counted and left out.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

import torch

from hopscope.circuits.checks import CertificateConfig, Evidence, Sense, certify
from hopscope.circuits.evaluate.ablations import UNIFORM, Interventions, from_json, to_json
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator, single
from hopscope.circuits.search.appendix_e import appendix_e
from hopscope.circuits.search.config import SearchConfig
from hopscope.circuits.search.orders import search
from hopscope.errors import InputError
from hopscope.files import read_json
from hopscope.problem.counter import derive_seed
from hopscope.records import RecordFormat, content_hash, plain
from hopscope.statistics import clopper_pearson
from hopscope.training.data import held_out
from hopscope.training.run import RunFolder
from hopscope.training.work import Work
from studies.calibration.hosts import TRUTH, Host, cut_down, hand_built
from studies.calibration.kinds import KINDS, TRUE, Kind, Label
from studies.calibration.labels import label
from studies.calibration.planting import plant
from studies.tools.circuits import RULES

FALSE_PASSES = 0.05
"""The share of false circuits that the whole certificate may pass, by the upper end of its 95% interval."""

PROOF = CertificateConfig(sequences=96, deciding=512, few=32, rough=8, draws=100, halves=16)
"""The proof behind every certificate: less than the default, whose passing share is therefore at most as large."""

QUICK = CertificateConfig(sequences=48, deciding=48, few=16, rough=4, draws=20, halves=4)
"""The proof of a quick check that the study runs: hand-built circuits are clear on few sequences."""

_LABELS = ("true", "false")

_TRIES = 4
"""The most circuits planted for each one that gets a label."""


@dataclass(frozen=True)
class CalibrationStudy:
    """What is planted and where, written down before the study runs.

    Attributes:
        built: hops and seed of each hand-built model.
        runs: folders of runs with trained models; models above the bar are left out.
        kinds: the kinds of circuits to plant; empty for all kinds of the study's sense.
        each: how many circuits of each kind must have a label, over all models together.
        sequences: sequences behind every label.
        bar: the bar of the hand-built models, the highest loss that a circuit may have.
        proof: the proof behind every certificate.
        sense: the reading in which circuits are certified.
    """

    built: tuple[tuple[int, int], ...] = tuple((hops, seed) for seed in range(3) for hops in (1, 2, 3))
    runs: tuple[Path, ...] = ()
    kinds: tuple[Kind, ...] = ()
    each: int = 210
    sequences: int = 512
    bar: float = 0.05
    proof: CertificateConfig = PROOF
    sense: Sense = "natural"

    @property
    def strict(self) -> CalibrationStudy:
        """The same study of strict certificates; a trained model takes part only where its strict circuit is clear."""
        return replace(self, sense="strict")

    @property
    def wanted(self) -> tuple[Kind, ...]:
        """The kinds of circuits that are planted."""
        return self.kinds or KINDS[self.sense]

    @property
    def asked(self) -> str:
        """A hash of what certificates are asked: proof, sense and rules. Certificates with another hash are refused."""
        return content_hash([plain(self.proof), self.sense, RULES])


@dataclass(frozen=True)
class Certified:
    """One planted circuit and what became of it.

    Attributes:
        host: the model's name.
        family: the family of the model.
        planted: the kind of circuit that was planted.
        number: its number among the circuits of its kind in this model, from 0.
        what: what was done to the circuit, in words.
        label: whether it is truly a circuit, see `kinds.Label`.
        bar: the bar that it was held to.
        failed: parts that it did not pass; also empty for a label that is left out, which is not certified.
        seconds: processor time that the certificate took.
    """

    host: str
    family: str
    planted: Kind
    number: int
    what: str
    label: Label
    bar: float
    failed: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class CalibrationResult:
    """All planted circuits.

    Attributes:
        certified: one entry for each planted circuit.
    """

    certified: tuple[Certified, ...]

    def of(self, kind: Kind, family: str | None = None) -> list[Certified]:
        """The circuits of a kind whose label is the one that the kind is planted to have."""
        wanted = "true" if kind in TRUE else "false"
        chosen = (one for one in self.certified if one.planted == kind and one.label == wanted)
        return [one for one in chosen if family in (None, one.family)]

    @property
    def false_passes(self) -> tuple[int, int, float]:
        """How many false circuits passed every part, how many there are, and the upper end of the share's 95%
        interval."""
        false = [one for kind in get_args(Kind) if kind not in TRUE for one in self.of(kind)]
        passed = sum(not one.failed for one in false)
        return passed, len(false), clopper_pearson(passed, len(false))[1]


def run(study: CalibrationStudy, folder: Path, work: Work | None = None) -> CalibrationResult:
    """Plant and certify what is not done yet; every certificate is kept as a file of its own in `folder`.

    Every model gets equally many of every kind, and more, until enough of a kind have a label or no model has more.

    Raises:
        InputError: a certificate there is damaged, or was made by another proof, in another sense or by other rules.
    """
    work = work or Work(workers=1)
    work.each("finding the circuits of trained models", _keep_hosts, [(study, folder, path) for path in study.runs])
    if work.idle:
        return read(study, folder)
    names = [host.name for host in reversed(_hosts(study, folder))]  # trained ones, the dearest, first
    kinds: Mapping[Kind, int] = dict.fromkeys(study.wanted, study.each)  # at first all, whatever is there already
    quota, before = 0, -1
    while kinds:
        quota += -(-max(kinds.values()) // len(names))
        work.each("certifying planted circuits", _fill, [(study, folder, name, (*kinds,), quota) for name in names])
        found = read(study, folder)
        if len(found.certified) == before:
            break  # no model has more
        before, kinds = len(found.certified), _short(study, found)
    return read(study, folder)


def _short(study: CalibrationStudy, found: CalibrationResult) -> Mapping[Kind, int]:
    """How many circuits with a label are missing, for every kind that has too few."""
    missing = {kind: study.each - len(found.of(kind)) for kind in study.wanted}
    return {kind: number for kind, number in missing.items() if number > 0}


def _fill(study: CalibrationStudy, folder: Path, name: str, kinds: Sequence[Kind], quota: int) -> None:
    """Plant circuits of some kinds in one model until enough have a label; a kind whose first ones get none is given
    up.

    Args:
        study: the calibration study.
        folder: the folder where planted circuits are kept.
        name: the name of the model.
        kinds: the kinds to plant.
        quota: how many circuits of each kind must have a label, including those already there.
    """
    hosts = _hosts(study, folder)
    (host,) = [one for one in hosts if one.name == name]
    for kind in kinds:
        labelled = 0
        for number in range(_TRIES * quota):
            path = folder / f"{name}-{kind.replace(' ', '-')}-{number:03d}.json"
            if path.exists():
                done = _read(study, path)
            elif (made := _certified(study, host, hosts, kind, number)) is not None:
                done = made
                _FORM.write(path, done, study.asked)
            else:
                break
            labelled += done.label in _LABELS
            if labelled == quota or (not labelled and number == _TRIES):
                break


def read(study: CalibrationStudy, folder: Path) -> CalibrationResult:
    """What has been certified so far."""
    return CalibrationResult(tuple(_read(study, path) for path in sorted(folder.glob("*-[0-9][0-9][0-9].json"))))


_FORM = RecordFormat(Certified, "hopscope calibration", "a planted circuit")


def _read(study: CalibrationStudy, path: Path) -> Certified:
    made = _FORM.read(path)
    if read_json(path, _FORM.what).get("seal", {}).get("run") != study.asked:
        raise InputError(
            f"{path} was certified by another proof, in another sense or by other rules; choose another folder, or "
            "move it away"
        )
    return made


@dataclass(frozen=True)
class _Kept:
    """What is kept of a trained model: the circuit that was found, cut down to what is clear.

    Attributes:
        program: the circuit, as in `hopscope.circuits.evaluate.ablations`; None where none was found.
        bar: the bar that it is held to.
        clear: as in `Host`.
    """

    program: list[dict[str, Any]] | None
    bar: float = 0.0
    clear: bool = False


_HOST = RecordFormat(_Kept, "hopscope calibration host", "a circuit found for calibration")


def _keep_hosts(study: CalibrationStudy, folder: Path, path: Path) -> None:
    """Find circuits in the models of a run, and keep them in `folder`."""
    run = RunFolder(path)
    for number, seed in enumerate(run.seeds):
        kept = _kept_path(folder, path, seed)
        if not kept.exists():
            model, problem = single(run.transformer(), number), run.problem
            searched = VectorEvaluator(model, problem, held_out(problem, 256, 0, "calibration search"))
            found = _search(searched, study.sense)
            host = found and cut_down("", "", model, problem, found, study.sequences)
            held = _Kept(to_json(host.circuit, problem), host.bar, host.clear) if host else _Kept(None)
            _HOST.write(kept, held, run.record.content_hash)


def _search(evaluator: VectorEvaluator, sense: Sense) -> Interventions | None:
    units, budget = Units.of(evaluator), SearchConfig.of("quick")
    if sense == "strict":
        ends = appendix_e(evaluator, units, budget)
        return ends[0].program if ends else None
    found = search(evaluator, units, budget, None)
    return None if found is units.base else found


def _kept_path(folder: Path, path: Path, seed: int) -> Path:
    return folder / "hosts" / f"{path.resolve().parent.name}-{path.name}-{seed}.json"


@lru_cache(maxsize=1)
def _hosts(study: CalibrationStudy, folder: Path) -> tuple[Host, ...]:
    """Every model with a known circuit: those built by hand, and those of the runs that have one.

    A strict circuit says nothing about the patterns that the model makes itself, so what is planted there is surely
    false only where it is clear in either sense: other models are left out.
    """
    built = [hand_built(hops, seed, study.sequences, study.bar) for hops, seed in study.built]
    trained = [host for path in study.runs for host in _trained(path, study.sequences, folder)]
    return (*built, *(host for host in trained if host.clear or study.sense == "natural"))


def _trained(path: Path, sequences: int, folder: Path) -> list[Host]:
    """The models of a run in which a circuit was found, as kept in `folder`."""
    run, hosts = RunFolder(path), []
    for number, seed in enumerate(run.seeds):
        kept = _kept_path(folder, path, seed)
        held = _HOST.read(kept, run.record.content_hash)
        if held.program is not None:
            model = single(run.transformer(), number)
            batch = held_out(run.problem, sequences, 0, TRUTH)
            evaluator = VectorEvaluator(model, run.problem, batch, run.recipe.initial)
            circuit = dict.fromkeys(evaluator.rows, UNIFORM) | from_json(held.program, run.problem)
            family = f"trained, D = {run.problem.hops}, {run.recipe.layers} x {run.recipe.heads}"
            hosts.append(Host(kept.stem, family, evaluator, circuit, held.bar, held.clear))
    return hosts


def _certified(study: CalibrationStudy, host: Host, hosts: Sequence[Host], kind: Kind, number: int) -> Certified | None:
    """Plant and label a circuit and, where its label counts, certify it; None where none of the kind can be planted."""
    seed = derive_seed(number, "calibration", host.name, kind)
    planted = plant(kind, host, hosts, torch.Generator().manual_seed(seed))
    if planted is None:
        return None
    truth, start = label(kind, host, planted), time.process_time()
    failed: tuple[str, ...] = ()
    if truth in _LABELS:
        evaluator = planted.evaluator or host.evaluator
        units = host.units if planted.evaluator is None else Units.of(evaluator)
        evidence = Evidence(evaluator, units.hypotheses, planted.program, host.bar, seed, study.proof, study.sense)
        failed = certify(evidence).failed
    seconds = round(time.process_time() - start, 2)
    return Certified(host.name, host.family, kind, number, planted.what, truth, host.bar, failed, seconds)
