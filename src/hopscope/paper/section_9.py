"""Section 9: how the heads of a transformer emerge during training; Figures 6 and 7, Appendix D; C12, C13, C16 to C19.

The circuit at the end of training is followed back through the checkpoints.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from hopscope.circuits.checks.card import Patterns
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.search.appendix_e import FILLS
from hopscope.circuits.search.config import Effort
from hopscope.emergence.history import STEPS_PER_EPOCH, Emergence, PathHistory
from hopscope.emergence.timing import LEAST_PLATEAU, first_crossings
from hopscope.emergence.track import emergence_of_run
from hopscope.paper import recipes
from hopscope.paper.claims import Finding, general, in_folder, yes_or_no
from hopscope.paper.models import MAX_LOSS, Studied, StudiedModels, losses, shape_in_words
from hopscope.paper.report import PageFigure, Section
from hopscope.paper.section_7_claims import order_learned
from hopscope.paper.section_8 import find
from hopscope.plot.circuit import draw_circuit
from hopscope.plot.style import BLUE, COLUMN, INK, PAGE, hop_label, hop_look, house, new_figure, thousands
from hopscope.plot.training import figure_6
from hopscope.problem.paths import AttentionPath
from hopscope.training.metrics import Metrics, learned_below
from hopscope.training.run import RunFolder
from hopscope.words import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CAPTIONS = {
    "figure-6": "Figure 6. Losses over training; a mark shows where the loss of a hop falls below 0.5.",
    "figure-7": "Figure 7. The circuit, and the epoch at which the mean attention along each of its paths crosses 0.5. "
    "Bars: 95% intervals over resampled sequences. Dotted lines: the loss of a hop falls below 0.5.",
    "appendix-d": "Appendix D. Every path at every checkpoint: its attention, and how much the loss rises without it.",
}

MUCH_LATER = 2
"""The last hop comes much later than the others if its gap is at least this many times any other gap."""

ABRUPTLY = 1 / 4
"""The loss of x1 falls abruptly if the fall takes at most this share of the number of steps before it."""


def follow(path: Path, number: int, effort: Effort) -> None:
    """Find and follow the circuit of one model of the run in `path`; reuse the circuit of an identical search."""
    circuit = find(path, number, effort)
    for patterns in ("own", "imposed"):
        if circuit and circuit.named_paths(patterns):
            emergence_of_run(RunFolder(path), number, patterns=patterns)


def judge(result: StudiedModels) -> list[Finding]:
    """Return the findings on C12, C13 and C16 to C19."""
    models = result.followed
    if not models:
        return []
    scale = f"{result.study.scale}: {shape_in_words(models)}"
    found = [
        _learns(models, scale),
        *(_share(claim, met, why_not, models, scale) for claim, (met, why_not) in _OF_HISTORIES.items()),
        _reuse(result.models, scale),
    ]
    return in_folder(result.study.at, found)


def _learns(models: Sequence[Studied], scale: str) -> Finding:
    alike = [model for model in models if model.shape == (24, 1, 4) and not model.pruned]
    if not alike:
        return Finding("C12", reason="no model of 24 layers, one head and D = 4 whose heads were not pruned")
    windows = [model.learned.window for model in alike]
    alone = [model.imposed.losses if model.imposed else None for model in alike]
    met = [
        window is not None and window < MAX_LOSS and found is not None and found["zero"].mean < MAX_LOSS
        for window, found in zip(windows, alone, strict=True)
    ]
    circuits = [", ".join(f"{found[fill].mean:.3f} ({fill})" for fill in FILLS) for found in alone if found]
    numbers = f"validation MSE {losses(windows)}; circuit alone {'; '.join(circuits) or 'none found'}"
    why = "the model or its circuit alone is not below 0.05"
    first = yes_or_no(_is_d(alike), all(met), numbers, why)
    return general("C12", sum(met), len(met), first, spread=numbers, scale=scale)


def _is_d(models: Sequence[Studied]) -> bool:
    """Return whether transformer D is the only model."""
    return [model.setup for model in models] == [recipes.D]


def _one_by_one(model: Studied) -> tuple[bool, str] | None:
    """Return whether the hops emerge one after the other, and the epochs at which they emerge."""
    if model.emergence is None or model.emergence.hops < 2:
        return None
    return model.emergence.order.one_by_one, ", ".join(map(_epoch, model.emergence.order.emerged))


def _long_plateau(model: Studied) -> tuple[bool, str] | None:
    """Return whether the plateau ends at or after the share `LEAST_PLATEAU` of the run, and the epoch of its end."""
    flat, steps = model.training
    least = round(LEAST_PLATEAU * steps, 6)  # for 6,400 steps the product is 2e-13 above 1,792
    return flat.left is not None and flat.left >= least, f"{_epoch(flat.left)} of {_epoch(steps)}"


def _abrupt(model: Studied) -> tuple[bool, str] | None:
    """Return whether the loss of x1 falls abruptly, and the epochs at which it crosses 90% and 10% of the plateau."""
    history = model.emergence
    if history is None or history.asked[0] != 1:
        return None
    fallen = -torch.tensor([row[0] for row in history.partial_losses])
    level = -(1 - 1 / history.chains)
    start, end = (float(first_crossings(history.steps, fallen, share * level)) for share in (0.9, 0.1))
    if math.isnan(end):
        return False, "never"
    return end - start <= ABRUPTLY * start, f"{_epoch(start)} to {_epoch(end)}"


def _last_much_later(model: Studied) -> tuple[bool, str] | None:
    """Return whether the gap before the last hop is much longer than the other gaps, and all gaps."""
    if model.emergence is None or model.emergence.hops < 3:
        return None
    emerged = model.emergence.order.emerged
    if None in emerged:
        return False, "never"
    gaps = [later - earlier for earlier, later in pairwise(step for step in emerged if step is not None)]
    return gaps[-1] >= MUCH_LATER * max(gaps[:-1]), ", ".join(map(_epoch, gaps))


_Asks = Callable[[Studied], tuple[bool, str] | None]

_OF_HISTORIES: Mapping[str, tuple[_Asks, str]] = {
    "C13": (_one_by_one, "two hops are delivered at once, or out of order"),
    "C16": (_long_plateau, "the plateau is much shorter"),
    "C17": (_abrupt, "the loss of x1 takes longer to fall than a quarter of its plateau"),
    "C19": (_last_much_later, "the last gap is less than twice the longest of the others"),
}
"""For each claim, the test of every followed model and the reason for a `no`."""


def _share(claim: str, asks: _Asks, why_not: str, models: Sequence[Studied], scale: str) -> Finding:
    """Return the finding on a claim about the emergence of the followed models."""
    known = [(model, *answer) for model in models if (answer := asks(model)) is not None]
    if not known:
        return Finding(claim, reason="no model of enough hops was followed")
    met, words = [met for _, met, _ in known], "; ".join(words for _, _, words in known)
    numbers = f"epochs {words}"
    if claim == "C13":
        learned = [order_learned(model.training[0].learned) for model in models]
        numbers += f"; losses in order in {learned.count('in order')} of {len(learned)}"
    first = yes_or_no(_is_d([model for model, _, _ in known]), all(met), numbers, why_not)
    return general(claim, sum(met), len(met), first, spread=numbers, scale=scale)


def _reuse(models: Sequence[Studied], scale: str) -> Finding:
    known = [(model, *reuse) for model in models if model.circuit and (reuse := _read_first(model.circuit)) is not None]
    if not known:
        return Finding("C18", reason="no circuit in which what reads what is known")
    papers = [(met, words) for model, met, words in known if model.setup == recipes.D]
    numbers, why = "; ".join(words for _, words in papers), "an answering path does not read the first one"
    first = yes_or_no(len(papers) == 1, all(met for met, _ in papers), numbers, why)
    scale = f"{scale.partition(':')[0]}: {counted(len(known), 'circuit')}"
    words = "; ".join(f"{model.name} {words}" for model, _, words in known)
    return general("C18", sum(met for _, met, _ in known), len(known), first, spread=words, scale=scale)


def _read_first(circuit: Circuit) -> tuple[bool, str] | None:
    """Return whether every later answering path reads, directly or through other paths, a path of the first answering
    layer, and how many do. A later answering path is in a later layer and attends to another role. Return None if the
    circuit has no such path."""
    answering = [path for path in circuit.paths if any(feed.reader is None for feed in path.feeds)]
    layer = min((path.path.layer for path in answering), default=0)
    first = {path.path for path in answering if path.path.layer == layer}
    keys = {path.key for path in first}
    later = [path.path for path in answering if path.path.layer > layer and path.path.key not in keys]
    if not later:
        return None
    readers = {path.path: {feed.reader for feed in path.feeds if feed.reader} for path in circuit.paths}
    reached: set[AttentionPath] = set()
    while first - reached:
        reached |= first
        first = {reader for path in reached for reader in readers.get(path, ())}
    met = sum(path in reached for path in later)
    return met == len(later), f"{met} of {len(later)}"


def _epoch(step: float | None) -> str:
    return "never" if step is None else f"{step / STEPS_PER_EPOCH:.0f}"


def section(result: StudiedModels) -> Section | None:
    """Return the section with the figures of the first model that was followed; None if no model was followed."""
    for model in result.followed:
        if model.emergence and model.circuit:
            return Section(
                "How heads emerge (Section 9)",
                paragraphs=[
                    f"The circuit of seed {model.seed} is followed back through the checkpoints. At each checkpoint, "
                    "we measure the attention along its paths and the rise of the loss without each path."
                ],
                figures=page_figures(model.run.metrics, model.circuit, model.emergence, model.imposed_emergence),
            )
    return None


def page_figures(
    metrics: Metrics, circuit: Circuit, own: Emergence, imposed: Emergence | None = None
) -> list[PageFigure]:
    """Return Figures 6 and 7 and Appendix D of one model, for the report or the run's folder.

    If the circuit of the Appendix E procedure was followed, Figure 7 and Appendix D show it, and `figure-7-own` and
    `appendix-d-own` show the circuit with own patterns.
    """
    figures = {"figure-6": figure_6(metrics, own.number)} if len(metrics) else {}
    if imposed:
        figures |= {"figure-7": figure_7(imposed, circuit, "imposed"), "appendix-d": appendix_d(imposed)}
    suffix = "-own" if imposed else ""
    figures |= {f"figure-7{suffix}": figure_7(own, circuit), f"appendix-d{suffix}": appendix_d(own)}
    model = f"-model-{own.number}" if own.number else ""
    captions = {name: _CAPTIONS[name.removesuffix("-own")] + " Own patterns." * ("own" in name) for name in figures}
    return [PageFigure(name + model, figure, captions[name]) for name, figure in figures.items()]


def figure_7(emergence: Emergence, circuit: Circuit, patterns: Patterns = "own") -> Figure:
    """Draw the circuit that was followed, and the epoch at which each path crosses 0.5, with 95% intervals."""
    paths = sorted(emergence.paths, key=lambda path: (path.crossing.step is None, path.crossing.step or 0, path.layer))
    layers = len({layer for layer, *_ in circuit.named_paths(patterns)})
    with house():
        figure = new_figure(PAGE + 0.6, max(2.8, 0.21 * len(paths) + 1.1, 0.62 * layers + 1.2))
        left, right = figure.subplots(1, 2, width_ratios=(1.0, 0.85))
        draw_circuit(left, circuit, patterns)
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
        # Labels of lines that are close together are written above each other.
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
    """Return the path's name: layer, head if there are several, query and key."""
    head = f".{path.head}" if emergence.heads > 1 else ""
    return f"{path.layer}{head}   {path.query} → {path.key}"


def appendix_d(emergence: Emergence) -> Figure:
    """Draw a panel for each path: its mean attention, how often its weight is the largest, and the loss without it."""
    from matplotlib.lines import Line2D

    columns = min(4, len(emergence.paths))
    rows = math.ceil(len(emergence.paths) / columns)
    costliest = max(1.0, *(max(path.change) for path in emergence.paths))
    least = min(0.0, *(min(path.change) for path in emergence.paths))
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
            axes.set_ylim(least - 0.03, 1.05 * costliest)
            thousands(axes)
        for axes in panels.flat[len(emergence.paths) :]:
            axes.set_visible(False)
        for lowest in panels.flat[len(emergence.paths) - columns : len(emergence.paths)]:  # of each column
            lowest.set_xlabel("step")
            lowest.tick_params(labelbottom=True)
        handles = [
            Line2D([], [], color=BLUE, linewidth=1.5, label="mean attention (colour: hop)"),
            Line2D([], [], color=BLUE, linewidth=0.9, linestyle=":", label="share of queries where it is the largest"),
            Line2D([], [], color=INK, linewidth=0.8, label="rise of the loss without it"),
        ]
        figure.legend(handles=handles, loc="outside upper left", ncols=3)
    return figure
