"""Section 9: how the heads of a transformer emerge during training; Figures 6 and 7, Appendix D, claims C12 and C13.

A circuit is followed through the checkpoints twice: the one at the end of training, and the one found where all hops
have just been learned. They need not be the same: a spike of the loss can rebuild a circuit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.search.config import Effort
from hopscope.circuits.store import CircuitStore
from hopscope.emergence.history import STEPS_PER_EPOCH, Emergence, PathHistory
from hopscope.emergence.timing import LEAST_PLATEAU
from hopscope.emergence.track import emergence_of_run
from hopscope.paper.claims import Finding, Verdict, in_folder
from hopscope.paper.models import (
    MAX_LOSS,
    PRUNED,
    RUN_GONE,
    Circuits,
    FollowedModel,
    ModelStudy,
    ModelVerdict,
    Studied,
    all_learned_at,
    below,
    every_model,
    losses,
    read_followed,
    read_models,
    shape_in_words,
    spans,
)
from hopscope.paper.report import PageFigure, Section, Table
from hopscope.paper.section_7_claims import order_learned
from hopscope.paper.section_8 import alone
from hopscope.plot.circuit import arrows, draw_circuit
from hopscope.plot.style import BLUE, COLUMN, INK, PAGE, hop_label, hop_look, house, new_figure, thousands
from hopscope.plot.training import figure_6
from hopscope.training.metrics import Metrics, learned_below
from hopscope.training.run import RunFolder
from hopscope.words import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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


def follow(path: Path, number: int, effort: Effort) -> None:
    """Find and follow both circuits of one model of the run in `path`; those of the same search are reused."""
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
    """Read what is in `folder`: runs, records of circuits, and of how these came to be; `InputError` if damaged."""
    models = read_models(study.setups, folder / study.at)
    return EmergenceResult(study, tuple(read_followed(model, folder / study.at) for model in models))


def judge(result: EmergenceResult) -> list[Finding]:
    """Findings on C12 and C13."""
    if not result.followed:
        return [Finding("C12", "not run"), Finding("C13", "not run")]
    models = [followed.model for followed in result.followed]
    scale = f"{result.study.scale}: {shape_in_words(models)}"
    return in_folder(result.study.at, [_learns(models, scale), _in_order(result.followed, scale)])


def _learns(models: Sequence[Studied], scale: str) -> Finding:
    """Judge C12."""
    large = [model for model in models if model.shape == (24, 1, 4)]
    alike = [model for model in large if not model.pruned]
    if not alike:
        return Finding("C12", "not run", reason=PRUNED if large else "no model of 24 layers, one head and D = 4")
    trained = [model.learned for model in alike if model.learned]
    outcomes = [below(learned.held_out, MAX_LOSS) if learned.held_out else "fails" for learned in trained]
    circuits = Circuits.of(alike)
    gone = [RUN_GONE] * (len(alike) - len(trained))
    learns, open_why = every_model(outcomes, 1, "whose own loss has an interval across the threshold", gone)
    observed = f"validation MSE over the last steps {losses([learned.window for learned in trained])}"
    held_out = f"held out {spans([learned.held_out for learned in trained if learned.held_out]) or '-'}"
    if circuits.nothing:
        failed: Verdict = "not reproduced" if learns == "not reproduced" else "not run"
        why = "" if failed == learns else circuits.nothing
        return Finding("C12", failed, observed, len(trained), held_out, scale, reason=why)
    circuit = alone(circuits, scale, "C12", least=1)
    verdict, reason = circuit.verdict, circuit.reason
    if learns != "reproduced" and verdict != "not reproduced":
        verdict, reason = learns, open_why
    interval = f"{held_out}; circuit {circuit.interval}"
    reason = reason if verdict == "inconclusive" else ""
    return Finding("C12", verdict, f"{observed}; {circuit.observed}", circuits.models, interval, scale, reason=reason)


def _in_order(followed: Sequence[FollowedModel], scale: str) -> Finding:
    """Judge C13."""
    followed = [tracked for tracked in followed if tracked.model.setup.problem.hops >= LEAST_HOPS]
    if not followed:
        return Finding("C13", "not run", reason=f"no model of D = {LEAST_HOPS} or more")
    if all(tracked.training is None for tracked in followed):
        return Finding("C13", "not run", reason="no circuit was followed")
    parts = [_parts(tracked) for tracked in followed]
    verdict, reason = every_model([_worst(verdicts) for verdicts in parts])
    if verdict == "inconclusive" and any("open" in verdicts for verdicts in parts):
        reason = "an order, or how much later the last hop came, that the data leave open"
        if unfollowed := sum(tracked.final is None for tracked in followed):
            reason = f"no circuit was followed in {counted(unfollowed, 'model')}"
        elif any(tracked.first is None for tracked in followed):
            reason = "no circuit was followed from where all hops are learned"
    met = [sum(verdicts[part] == "meets" for verdicts in parts) for part in range(3)]
    n = len(followed)
    observed = f"plateau long enough in {met[0]} of {n}, losses in order in {met[1]}, paths in {met[2]}; "
    observed += "; ".join(map(_in_words, followed))
    certain = (tracked.final.order.certainty if tracked.final else () for tracked in followed)
    words = (" ".join(f"{share:.2f}" for share in shares) or "-" for shares in certain)
    interval = f"paths, certainty of each order: {'; '.join(words)}"
    return Finding("C13", verdict, observed, n, interval, scale, reason=reason)


def _parts(tracked: FollowedModel) -> tuple[ModelVerdict, ModelVerdict, ModelVerdict]:
    """Verdicts on the plateau's length and the order of the losses, which need no circuit, and on that of the paths."""
    paths = _worst([_paths(circuit) if circuit else "open" for circuit in (tracked.final, tracked.first)])
    if tracked.training is None:
        return "open", "open", paths
    flat, steps = tracked.training
    least = round(LEAST_PLATEAU * steps, 6)  # for 6,400 steps the product is 2e-13 above 1,792
    length: ModelVerdict = "meets" if flat.left is not None and flat.left >= least else "fails"
    outcome: dict[str, ModelVerdict] = {"in order": "meets", "tied": "open"}
    order = "broken" if None in flat.learned else order_learned(flat.learned)
    return length, outcome.get(order, "fails"), paths


def _worst(verdicts: Sequence[ModelVerdict]) -> ModelVerdict:
    return "fails" if "fails" in verdicts else "open" if "open" in verdicts else "meets"


def _paths(emergence: Emergence) -> ModelVerdict:
    emerged = [step for step in emergence.order.emerged if step is not None]
    crossed = all(path.crossing.step is not None for path in emergence.paths)
    gaps = [later - earlier for earlier, later in pairwise(emerged)]
    ordered = len(emerged) == emergence.hops and all(gap > 0 for gap in gaps) and crossed
    certainty = min(emergence.order.certainty, default=1.0)
    if not ordered or (gaps and gaps[-1] < max(gaps)) or certainty <= 1 - CERTAIN:
        return "fails"
    much_later = not gaps or gaps[-1] >= MUCH_LATER * max(gaps[:-1], default=0)
    return "meets" if certainty >= CERTAIN and much_later else "open"


def _in_words(tracked: FollowedModel) -> str:
    if tracked.training is None:
        return f"seed {tracked.model.seed}: nothing is known"
    flat, _ = tracked.training
    circuits = [
        f"{' '.join(map(_epoch, circuit.order.emerged))} ({when}, "
        f"{sum(path.crossing.step is not None for path in circuit.paths)} of {counted(len(circuit.paths), 'path')} "
        "cross 0.5)"
        for when, circuit in (("at the end", tracked.final), ("when all are learned", tracked.first))
        if circuit
    ]
    paths = ", ".join(circuits) or "not followed"
    learned = ", ".join(map(_epoch, flat.learned))
    return f"seed {tracked.model.seed}: plateau {_epoch(flat.left)}, losses {learned}, paths {paths}, in epochs"


def _epoch(step: float | None) -> str:
    return "never" if step is None else f"{step / STEPS_PER_EPOCH:.0f}"


def section(result: EmergenceResult) -> Section | None:
    """The section with the first model's figures and a table of all paths; None where no model has a circuit."""
    followed = [(tracked.metrics, tracked.final, tracked.model.circuit) for tracked in result.followed]
    known = [(metrics, final, circuit) for metrics, final, circuit in followed if final and circuit]
    if not known:
        return None
    return Section(
        "How heads emerge (Section 9)",
        paragraphs=[
            "The circuit found at the end of training is followed back through the checkpoints: how much its paths "
            "attend to what they will, and what their absence would cost there and then.",
        ],
        figures=page_figures(*known[0]),
        tables=[_table([emergence for _, emergence, _ in known])],
    )


def page_figures(metrics: Metrics | None, emergence: Emergence, circuit: Circuit) -> list[PageFigure]:
    """Figure 6 (if there are metrics), Figure 7 and Appendix D of one model, for the report or for its run's folder."""
    figures = {"figure-6": figure_6(metrics, emergence.number)} if metrics is not None and len(metrics) else {}
    figures |= {"figure-7": figure_7(emergence, circuit), "appendix-d": appendix_d(emergence)}
    suffix = f"-model-{emergence.number}" if emergence.number else ""
    return [PageFigure(name + suffix, figure, _CAPTIONS[name]) for name, figure in figures.items()]


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


def figure_7(emergence: Emergence, circuit: Circuit) -> Figure:
    """Left: the circuit that was followed. Right: the epoch at which each path crosses 0.5, with 95% intervals."""
    paths = sorted(emergence.paths, key=lambda path: (path.crossing.step is None, path.crossing.step or 0, path.layer))
    drawn = arrows(circuit)
    layers = max((arrow.row for arrow in drawn), default=1)
    with house():
        figure = new_figure(PAGE + 0.6, max(2.8, 0.21 * len(paths) + 1.1, 0.62 * layers + 1.0))
        left, right = figure.subplots(1, 2, width_ratios=(1.0, 0.85))
        draw_circuit(left, circuit, drawn)
        _draw_crossings(right, emergence, paths)
    return figure


def _draw_crossings(axes: Axes, emergence: Emergence, paths: Sequence[PathHistory]) -> None:
    end = emergence.steps[-1] / emergence.steps_per_epoch
    for row, path in enumerate(paths):
        look, found = hop_look(path.hop), path.crossing
        if found.step is None:
            axes.text(end, row, "never", ha="right", va="center", fontsize=7, color=look.color)
            continue
        low = found.step if found.low is None else found.low
        high = emergence.steps[-1] if found.high is None else found.high
        ends = [step / emergence.steps_per_epoch for step in (low, high)]
        axes.plot(ends, [row, row], color=look.color, linewidth=1.0, zorder=2)
        axes.plot(
            [found.step / emergence.steps_per_epoch], [row], color=look.color, marker=look.marker, markersize=5,
            markeredgecolor="white", markeredgewidth=0.6, linestyle="none", zorder=3,
        )  # fmt: skip
    learned: dict[int, list[int]] = {}
    for hop, step in zip(emergence.asked, emergence.plateau.learned, strict=False):
        if step is not None:
            learned.setdefault(step, []).append(hop)
    height, last = 0, -math.inf
    for step, hops in sorted(learned.items()):
        epoch, color = step / emergence.steps_per_epoch, hop_look(hops[0]).color
        # Names of lines that stand close together are written one above the other.
        height, last = (height + 1 if epoch - last < 0.05 * len(hops) * end else 0), epoch
        axes.axvline(epoch, color=color, linewidth=0.9, linestyle=":", zorder=1)
        axes.annotate(
            ", ".join(map(hop_label, hops)), (epoch, 1), xycoords=("data", "axes fraction"), xytext=(0, 1 + 8 * height),
            textcoords="offset points", color=color, fontsize=7, ha="center", va="bottom",
        )  # fmt: skip
    axes.set_yticks(range(len(paths)), [path_name(path, emergence) for path in paths])
    axes.set_ylim(len(paths) - 0.5, -0.5)
    axes.set_xlim(0, end * 1.01)
    below = f"loss below {learned_below(emergence.chains):.2g}"
    axes.set_xlabel(f"epoch ({emergence.steps_per_epoch} steps) of emergence\ndotted: {below}")


def path_name(path: PathHistory, emergence: Emergence) -> str:
    """The path's name: layer, head where there are several, query and key."""
    head = f".{path.head}" if emergence.heads > 1 else ""
    return f"{path.layer}{head}   {path.query} → {path.key}"


def appendix_d(emergence: Emergence) -> Figure:
    """A panel for each path: its mean attention, how often its key comes first, and what its absence costs."""
    from matplotlib.lines import Line2D

    columns = min(4, len(emergence.paths))
    rows = math.ceil(len(emergence.paths) / columns)
    costliest = max(1.0, *(max(path.change) for path in emergence.paths))
    with house():
        figure = new_figure(COLUMN if columns == 1 else PAGE, 1.45 * rows + 0.6)
        panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for axes, path in zip(panels.flat, emergence.paths, strict=False):
            color = hop_look(path.hop).color
            axes.axhline(0.5, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
            axes.plot(emergence.steps, path.attention, color=color, linewidth=1.5, zorder=3)
            axes.plot(emergence.steps, path.foremost, color=color, linewidth=0.9, linestyle=":", zorder=2)
            axes.plot(emergence.steps, path.change, color=INK, linewidth=0.8, zorder=2)
            if path.crossing.step is not None:
                axes.plot(
                    [path.crossing.step], [0.5], color=color, marker="o", markersize=4.5, markeredgecolor="white",
                    markeredgewidth=0.6, zorder=4,
                )  # fmt: skip
            axes.set_title(path_name(path, emergence), fontsize=7.5)
            axes.set_ylim(min(0.0, *path.change) - 0.03, 1.05 * costliest)
            thousands(axes)
        for axes in panels.flat[len(emergence.paths) :]:
            axes.set_visible(False)
        for column in range(columns):
            lowest = panels[(len(emergence.paths) - 1 - column) // columns][column]
            lowest.set_xlabel("step")
            lowest.tick_params(labelbottom=True)
        handles = [
            Line2D([], [], color=BLUE, linewidth=1.5, label="mean attention (colour: hop)"),
            Line2D([], [], color=BLUE, linewidth=0.9, linestyle=":", label="share of queries where it is the largest"),
            Line2D([], [], color=INK, linewidth=0.8, label="rise of the loss without it"),
        ]
        figure.legend(handles=handles, loc="outside upper left", ncols=3)
    return figure
