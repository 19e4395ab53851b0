"""Section 9: how the heads of a transformer emerge during training; Figures 6 and 7, Appendix D, claims C12 and C13.

A circuit is followed through the checkpoints twice: the one at the end of training, and the one that is there when all
hops have just been learned. They need not be the same: a spike of the loss can rebuild a circuit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.search.config import Effort
from hopscope.emergence.history import STEPS_PER_EPOCH, Emergence
from hopscope.emergence.timing import LEAST_PLATEAU
from hopscope.paper.claims import Finding, Verdict, in_folder
from hopscope.paper.judging import RUN_GONE, ModelVerdict, Readings, below, every_model, losses, spans
from hopscope.paper.models import (
    MAX_LOSS,
    FollowedModel,
    ModelStudy,
    Studied,
    all_learned_at,
    do_for_every_model,
    read_followed,
    read_models,
    shape_in_words,
)
from hopscope.paper.report import PageFigure, Section, Table
from hopscope.paper.section_8_claims import PRUNED, alone
from hopscope.paper.section_9_figures import appendix_d, figure_7
from hopscope.plot.style import save
from hopscope.plot.training import figure_6
from hopscope.training.execution import FASTEST, Execution
from hopscope.training.metrics import Metrics
from hopscope.training.run import RunFolder
from hopscope.training.side_by_side import SILENT, ProgressDisplay
from hopscope.words import counted

if TYPE_CHECKING:
    from hopscope.training.side_by_side import Then

_CAPTIONS = {
    "figure-6": "Figure 6. Losses over training; a mark shows where a hop falls below 0.5.",
    "figure-7": "Figure 7. The circuit, and the epoch at which the mean attention along each of its paths crosses 0.5 "
    "(bars: 95%, sequences resampled). Dotted: when the loss of a hop falls below 0.5.",
    "appendix-d": "Appendix D. Every path at every checkpoint: what it attends to, and what its absence costs.",
}

CERTAIN = 0.95
"""An order counts as settled from this certainty up, or, against it, from its complement down."""


MUCH_LATER = 2
"""How many times as long as any other gap the last must be, for the last hop to come much later than the others."""

LEAST_HOPS = 3
"""Of fewer hops there are not two gaps, of which the last could be the longest (C13); one hop has no order at all."""


@dataclass(frozen=True)
class EmergenceResult:
    """Those models of the study that are there, followed."""

    study: ModelStudy
    followed: tuple[FollowedModel, ...]


def run(
    study: ModelStudy, folder: Path, execution: Execution = FASTEST, display: ProgressDisplay = SILENT
) -> EmergenceResult:
    """Train what is not trained yet, find every model's circuits at both times, follow them, and read the results."""
    do_for_every_model("circuits and their emergence", follow, study, folder, execution, display)
    return read(study, folder)


def after_training(study: ModelStudy) -> dict[str, Then]:
    """What to do with each run once it is trained, by its name."""
    return {setup.name: partial(_follow_all, models=len(setup.seeds), effort=study.effort) for setup in study.setups}


def _follow_all(path: Path, *, models: int, effort: Effort) -> None:
    for number in range(models):
        follow(path, number, effort)


def follow(path: Path, number: int, effort: Effort) -> None:
    """Find and follow both circuits of one model of the run in `path`; those of the same search are kept."""
    from hopscope.circuits.store import CircuitStore
    from hopscope.emergence.track import emergence_of_run

    run = RunFolder(path)
    if run.result.models[number].diverged:
        return
    store = CircuitStore(run)
    if store.find(number, effort=effort).found:
        emergence_of_run(run, number)
    step = all_learned_at(run, number)
    if step is not None and store.find(number, step, effort=effort).found:
        emergence_of_run(run, number, step=step)


def read(study: ModelStudy, folder: Path) -> EmergenceResult:
    """Read what is in `folder`: runs, records of circuits, and of how these came to be.

    Raises:
        InputError: a run or a record is damaged, or belongs to another model.
    """
    from hopscope.training.side_by_side import finished

    runs = finished(study.setups, folder / study.at)
    models = read_models(study.setups, folder / study.at)
    followed = [read_followed(model, folder / study.at, runs.get(model.setup.name)) for model in models]
    return EmergenceResult(study, tuple(followed))


def judge(result: EmergenceResult) -> list[Finding]:
    """Findings on C12 and C13."""
    if not result.followed:
        return [Finding("C12", "not run"), Finding("C13", "not run")]
    scale = f"{result.study.scale}: {shape_in_words([one.model for one in result.followed])}"
    found = [_learns([one.model for one in result.followed], scale), _in_order(result.followed, scale)]
    return in_folder(result.study.at, found)


def _learns(models: Sequence[Studied], scale: str) -> Finding:
    """Judge C12."""
    large = [model for model in models if model.shape == (24, 1, 4)]
    alike = [model for model in large if not model.pruned]
    if not alike:
        why = PRUNED if large else "no model of 24 layers, one head and D = 4"
        return Finding("C12", "not run", reason=why)
    trained = [model.learned for model in alike if model.learned]
    outcomes = [below(one.held_out, MAX_LOSS) if one.held_out else "fails" for one in trained]
    readings = Readings.of(alike)
    gone = [RUN_GONE] * (len(alike) - len(trained))
    learned, open_why = every_model(outcomes, 1, "whose own loss has an interval across the threshold", gone)
    ours = f"validation MSE over the last steps {losses([one.window for one in trained])}"
    held_out = f"held out {spans([one.held_out for one in trained if one.held_out]) or '-'}"
    if readings.nothing:
        failed: Verdict = "not reproduced" if learned == "not reproduced" else "not run"
        why = "" if failed == learned else readings.nothing
        return Finding("C12", failed, ours, len(trained), held_out, scale, reason=why)
    circuit = alone("C12", readings, scale, least=1)
    verdict, reason = circuit.verdict, circuit.reason
    if learned != "reproduced" and verdict != "not reproduced":
        verdict, reason = learned, open_why
    interval = f"{held_out}; circuit {circuit.interval}"
    reason = reason if verdict == "inconclusive" else ""
    return Finding("C12", verdict, f"{ours}; {circuit.ours}", readings.models, interval, scale, reason=reason)


def _in_order(followed: Sequence[FollowedModel], scale: str) -> Finding:
    """Judge C13."""
    once = {(one.model.setup.recipe, one.model.setup.problem, one.model.seed): one for one in followed}
    followed = [one for one in once.values() if one.model.setup.problem.hops >= LEAST_HOPS]
    if not followed:
        return Finding("C13", "not run", reason=f"no model of D = {LEAST_HOPS} or more")
    if all(one.training is None for one in followed):
        return Finding("C13", "not run", reason="no circuit was followed")
    parts = [_parts(one) for one in followed]
    outcomes: list[ModelVerdict] = [
        "fails" if "fails" in part else "open" if "open" in part else "meets" for part in parts
    ]
    verdict, reason = every_model(outcomes)
    if verdict == "inconclusive" and "open" in outcomes:
        reason = _why_open(followed)
    met = [sum(mine[part] == "meets" for mine in parts) for part in range(3)]
    n = len(followed)
    ours = f"plateau long enough in {met[0]} of {n}, losses in order in {met[1]}, paths in {met[2]}; " + "; ".join(
        map(_told, followed)
    )
    certain = [one.final.order.certainty if one.final else () for one in followed]
    interval = "paths, certainty of each order: " + "; ".join(
        " ".join(f"{share:.2f}" for share in shares) or "-" for shares in certain
    )
    return Finding("C13", verdict, ours, n, interval, scale, reason=reason)


def _why_open(followed: Sequence[FollowedModel]) -> str:
    """What is lacking, if no model fails and the order of some is open."""
    unfollowed = sum(one.final is None for one in followed)
    doubtful = sum(not one.final_certified or not one.first_certified for one in followed)
    if unfollowed:
        return f"no circuit was followed in {counted(unfollowed, 'model')}"
    if any(one.first is None for one in followed):
        return "no circuit was followed from where all hops are learned"
    if doubtful:
        return f"{counted(doubtful, 'model')} with a circuit that is not certified"
    return "an order, or how much later the last hop came, that the data leave open"


def _parts(one: FollowedModel) -> tuple[ModelVerdict, ModelVerdict, ModelVerdict]:
    """Verdicts on the plateau's length, the order of the losses and that of the paths; the first two need no
    circuit."""
    both: list[ModelVerdict] = [
        _paths(circuit) if circuit and certified else "open"
        for circuit, certified in ((one.final, one.final_certified), (one.first, one.first_certified))
    ]
    paths: ModelVerdict = "fails" if "fails" in both else "open" if "open" in both else "meets"
    if one.training is None:
        return "open", "open", paths
    (flat, steps) = one.training
    least = round(LEAST_PLATEAU * steps, 6)  # for 6,400 steps the product is 2e-13 above 1,792
    length: ModelVerdict = "meets" if flat.left is not None and flat.left >= least else "fails"
    return length, _losses(flat.learned), paths


def _losses(learned: Sequence[int | None]) -> ModelVerdict:
    steps = [step for step in learned if step is not None]
    if len(steps) < len(learned) or any(one > after for one, after in pairwise(steps)):
        return "fails"
    return "open" if len(set(steps)) < len(steps) else "meets"


def _paths(emergence: Emergence) -> ModelVerdict:
    emerged = [step for step in emergence.order.emerged if step is not None]
    crossed = all(path.crossing.step is not None for path in emergence.paths)
    gaps = [after - one for one, after in pairwise(emerged)]
    ordered = len(emerged) == emergence.hops and all(gap > 0 for gap in gaps) and crossed
    certainty = min(emergence.order.certainty, default=1.0)
    if not ordered or (gaps and gaps[-1] < max(gaps)) or certainty <= 1 - CERTAIN:
        return "fails"
    much_later = not gaps or gaps[-1] >= MUCH_LATER * max(gaps[:-1], default=0)
    return "meets" if certainty >= CERTAIN and much_later else "open"


def _told(one: FollowedModel) -> str:
    if one.training is None:
        return f"seed {one.model.seed}: nothing is there"
    epoch = partial(_epoch, of=STEPS_PER_EPOCH)
    flat, _ = one.training
    learned = ", ".join(map(epoch, flat.learned))
    circuits = [
        f"{' '.join(map(epoch, circuit.order.emerged))} ({when}, "
        f"{sum(path.crossing.step is not None for path in circuit.paths)} of {counted(len(circuit.paths), 'path')} "
        "cross 0.5)"
        for when, circuit in (("at the end", one.final), ("when all are learned", one.first))
        if circuit
    ]
    paths = ", ".join(circuits) or "not followed"
    return f"seed {one.model.seed}: plateau {epoch(flat.left)}, losses {learned}, paths {paths}, in epochs"


def _epoch(step: float | None, of: int) -> str:
    return "never" if step is None else f"{step / of:.0f}"


def section(result: EmergenceResult, figures: Path) -> Section | None:
    """The section with the first model's figures and a table of all paths; None where no model has a circuit."""
    there = [(one, one.final) for one in result.followed if one.final and one.model.circuit]
    if not there:
        return None
    first, emergence = there[0]
    assert first.model.circuit is not None
    stems = save_figures(first.metrics, emergence, first.model.circuit, figures)
    return Section(
        "How heads emerge (Section 9)",
        paragraphs=[
            "The circuit found at the end of training is followed back through the checkpoints: how much its paths "
            "attend to what they will, and what their absence would cost there and then.",
        ],
        figures=[PageFigure(stem, _CAPTIONS[name]) for name, stem in stems.items()],
        tables=[_table([final for _, final in there])],
    )


def save_figures(metrics: Metrics | None, emergence: Emergence, circuit: Circuit, folder: Path) -> dict[str, Path]:
    """Draw Figure 6 (if there are metrics), Figure 7 and Appendix D; return the stems of their files by name."""
    figures = {"figure-6": figure_6(metrics, emergence.number)} if metrics is not None and len(metrics) else {}
    figures |= {"figure-7": figure_7(emergence, circuit), "appendix-d": appendix_d(emergence)}
    suffix = f"-model-{emergence.number}" if emergence.number else ""
    stems = {}
    for name, figure in figures.items():
        stems[name] = folder / f"{name}{suffix}"
        save(figure, stems[name])
    return stems


def _table(emergences: list[Emergence]) -> Table:
    rows = [
        [
            emergence.seed,
            f"{path.layer}.{path.head}",
            f"{path.query} → {path.key}",
            "never" if path.crossing.step is None else f"{emergence.epoch(path.crossing.step):.1f}",
            f"{path.attention[-1]:.2f}",
            f"{path.change[-1]:+.2f}",
        ]
        for emergence in emergences
        for path in emergence.paths
    ]
    return Table(
        header=["seed", "head", "path", "emerges at epoch", "attention in the end", "rise without it"],
        rows=rows,
        caption="Every path of every circuit followed: when its attention crosses 0.5, what it came to, and by how "
        "much the loss of the whole model rises without it.",
    )
