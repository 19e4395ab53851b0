"""Section 4: language models on the text, and the accuracy of guessing; Figure 2, claims C14 and C15."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hopscope.benchmark.points import SUMMARY, Point, Summary
from hopscope.benchmark.redaction import shown as harmless
from hopscope.benchmark.settings import BenchmarkSettings
from hopscope.errors import InputError
from hopscope.paper.claims import THEOREM, Finding
from hopscope.paper.report import PageFigure, Section
from hopscope.plot.style import INK, PAGE, Look, hop_look, house, new_figure
from hopscope.problem.text.questions import FORMULATIONS, Question, questions
from hopscope.statistics import holm, wilson
from hopscope.words import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEAR_PERFECT = 0.9
"""The lower bound of the accuracy must be at least this value at every point."""

LEVEL = 0.05
"""The error rate of the lower bounds, over all models together (Holm's procedure)."""

ACCEPTED = 0.95
"""The minimum share of questions that must get an acceptable answer."""

OTHERS = ("lives-with", "kingdoms", "functions", "relatives")
"""The formulations other than equations, in the order of Figure 2."""

GUESS: Mapping[str, float] = dict.fromkeys(("equations", *OTHERS), 1 / 4) | {"relatives": 1 / 16}
"""The paper's floor for each formulation: the accuracy of a random guess."""

NINE = [*(("equations", hops) for hops in range(1, 6)), *((name, FORMULATIONS[name].paper_hops) for name in OTHERS)]
"""The nine points that C14 is about, each a formulation and D."""

FRESH = 1_015
"""Seed of questions that no benchmark uses by default."""


@dataclass(frozen=True)
class AnswerSpread:
    """How often each acceptable answer of a formulation was right, in ascending order of the answers.

    `guess` is the accuracy of a random guess; `p` is the p-value of a chi-squared test of equal frequencies.
    """

    formulation: str
    guess: float
    counts: tuple[int, ...]
    p: float

    @classmethod
    def of(cls, asked: Sequence[Question]) -> AnswerSpread:
        """Count the right answers of questions of one formulation and D."""
        from scipy.stats import chisquare

        counts = Counter(question.answer for question in asked)
        each = tuple(counts[answer] for answer in asked[0].acceptable)
        return cls(asked[0].formulation, asked[0].guess, each, float(chisquare(each).pvalue))


@dataclass(frozen=True)
class BenchmarkResult:
    """The results of language models (None if none was asked), and the spread of right answers."""

    summary: Summary | None
    spreads: tuple[AnswerSpread, ...]


def read(count: int, folder: Path) -> BenchmarkResult:
    """Draw `count` fresh questions of each formulation, and read the benchmark in the folder.

    `hopscope benchmark --out FOLDER/benchmark` asks the language models.
    """
    path = folder / "benchmark" / "summary.json"
    return BenchmarkResult(SUMMARY.read(path) if path.exists() else None, _spreads(count))


@cache
def _spreads(count: int) -> tuple[AnswerSpread, ...]:
    """Return the spread of answers; it depends only on `count` and takes seconds, so it is cached."""
    return tuple(AnswerSpread.of(questions(name, count=count, seed=FRESH)) for name in GUESS)


def judge(result: BenchmarkResult) -> list[Finding]:
    """Return the findings on C14 and C15."""
    return [_models(result.summary), _guessing(result.spreads)]


def _models(summary: Summary | None) -> Finding:
    if summary is None:
        return Finding("C14", reason="no language model was asked")
    names = list(dict.fromkeys(point.model for point in summary.points))
    whole = {name: points for name in names if (points := _nine(summary.points, name)) is not None}
    if not whole:
        return Finding("C14", reason=f"no model was asked everything ({len(names)} in part)")
    changed = ", ".join(summary.settings.extensions.changed())
    faults = {name: _fault(points, changed, summary.settings) for name, points in whole.items()}
    fair = {name: points for name, points in whole.items() if not faults[name]}
    solvers = _solvers(fair, asked=len(names))
    shown = max(fair or whole, key=lambda name: (name in solvers, _worst(whole[name]).low))
    worst = _worst(whole[shown])
    spread = (
        f"the best, {harmless(shown)}, has its lowest accuracy {_percent(worst.accuracy)} "
        f"({_percent(worst.low)} to {_percent(worst.high)}) at {worst.formulation}, D = {worst.hops}"
        + (f"; {counted(len(names) - len(whole), 'model')} asked in part" if len(names) > len(whole) else "")
    )
    scale = f"{counted(len(whole), 'model')}, {min(point.asked for point in whole[shown])} or more questions per point"
    return Finding(
        "C14",
        reason="" if solvers else "; ".join(f"{fault} ({harmless(name)})" for name, fault in faults.items() if fault),
        in_general="holds" if solvers else "open",
        share=(len(solvers), len(whole)),
        spread=spread,
        scale=scale,
        run="benchmark",
    )


def _nine(points: Sequence[Point], model: str) -> list[Point] | None:
    """Return the points of a model in the order of `NINE`; None unless the model was asked all of them."""
    there = {(point.formulation, point.hops): point for point in points if point.model == model}
    return [there[key] for key in NINE] if all(key in there for key in NINE) else None


def _fault(points: Sequence[Point], extensions: str, settings: BenchmarkSettings) -> str:
    """Return why these answers are no evidence on the claim; empty if they are evidence."""
    if extensions:
        return f"not the paper's prompts ({extensions})"
    if settings.rule != "exact":
        return f"answers were taken by the {settings.rule} rule"
    if settings.reasoning_effort not in (None, "none"):  # some servers do not report reasoning
        return f"reasoning was asked for ({settings.reasoning_effort})"
    if any(point.reasoned for point in points):
        return "hidden reasoning"
    share, least = min(((point.accepted / point.asked, point) for point in points), key=lambda pair: pair[0])
    if share < ACCEPTED:
        return f"acceptable answers to {_percent(share)} of {least.formulation}, D = {least.hops}"
    return ""


def _solvers(models: Mapping[str, Sequence[Point]], asked: int) -> list[str]:
    """Return the models that pass all nine points, by Holm's procedure over the number of models `asked`."""
    found: list[str] = []
    for name in sorted(models, key=lambda name: -_worst(models[name]).low):
        confidence = 1 - LEVEL / (asked - len(found))
        bounds = [wilson(point.correct, point.asked, confidence)[0] for point in models[name]]
        if min(bounds) < NEAR_PERFECT:
            break
        found.append(name)
    return found


def _worst(points: Sequence[Point]) -> Point:
    return min(points, key=lambda point: point.low)


def _guessing(spreads: Sequence[AnswerSpread]) -> Finding:
    if not spreads:
        return Finding("C15")
    wrong = sum(spread.guess != GUESS[spread.formulation] for spread in spreads)
    uneven = sum(p <= 0.01 for p in holm([spread.p for spread in spreads]))
    n = min(sum(spread.counts) for spread in spreads)
    numbers = (
        f"wrong number of acceptable answers in {wrong}, uneven answers in {uneven} of "
        f"{counted(len(spreads), 'formulation')}, {n} questions each"
    )
    broken = bool(wrong or uneven)
    return Finding(
        "C15",
        "no" if broken else THEOREM,
        numbers,
        "a random guess has another accuracy, or answers are uneven" if broken else "",
        "does not hold" if broken else THEOREM,
        spread=numbers if broken else "",
        scale=f"{n} fresh questions of each formulation",
    )


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{share:.1%}"


def section(result: BenchmarkResult) -> Section | None:
    """Return the section with Figure 2; None if no language model gave an acceptable answer."""
    summary = result.summary
    if summary is None or all(point.accuracy is None for point in summary.points):
        return None
    models = len({point.model for point in summary.points})
    changed = list(summary.settings.extensions.changed())
    if summary.settings.reasoning_effort not in (None, "none"):
        changed.append(f"reasoning effort {summary.settings.reasoning_effort}")
    how = f"with {', '.join(changed)}" if changed else "without examples or room to reason"
    caption = "As Figure 2: accuracy with 95% intervals. Dashed: a random guess. Dotted: the best shortcut."
    return Section(
        "Language models on the text (Section 4)",
        paragraphs=[
            f"We asked {counted(models, 'language model')} questions of the five formulations, without fine-tuning and "
            f"{how}; see `docs/benchmark.md`."
        ],
        figures=[PageFigure("figure-2", figure_2(summary.points), caption)],
    )


def figure_2(points: Sequence[Point]) -> Figure:
    """Draw accuracies with 95% Wilson intervals, a random guess (dashed) and the best shortcut (dotted).

    Raises:
        InputError: no point has an accuracy.
    """
    from matplotlib.lines import Line2D

    known = [point for point in points if point.accuracy is not None]
    if not known:
        raise InputError("there is no accuracy to draw: no question got an acceptable answer")
    models = list(dict.fromkeys(point.model for point in known))
    looks = {model: hop_look(number) for number, model in enumerate(models, start=1)}
    with house():
        figure = new_figure(PAGE, 2.8 + 0.16 * ((len(models) + 1) // 2))
        left, right = figure.subplots(1, 2, width_ratios=[1, 1.15])
        _equations(left, [point for point in known if point.formulation == "equations"], looks)
        _others(right, [point for point in known if point.formulation in OTHERS], looks)
        for axes in (left, right):
            axes.set_ylim(-0.02, 1.04)
            axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0%", "25%", "50%", "75%", "100%"])
        handles = [
            Line2D([], [], label=label(model), color=look.color, marker=look.marker, linestyle=look.dash)
            for model, look in looks.items()
        ]
        handles.append(Line2D([], [], label="random guess", color=INK, linestyle="--", linewidth=0.9))
        handles.append(Line2D([], [], label="best shortcut", color=INK, linestyle=":", linewidth=1.1))
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def label(model: str) -> str:
    """Return a model's name for matplotlib: no mathematics, no control characters, not too long."""
    plain = harmless(model)
    return (plain if len(plain) <= 36 else f"{plain[:35]}…").replace("$", r"\$")


def _equations(axes: Axes, points: Sequence[Point], looks: Mapping[str, Look]) -> None:
    axes.set_title("equations")
    axes.set_xlabel("D, retrieval steps")
    axes.set_ylabel("accuracy")
    if not points:
        axes.text(0.5, 0.5, "not asked", transform=axes.transAxes, ha="center")
        return
    for model, look in looks.items():
        those = sorted((p for p in points if p.model == model), key=lambda p: p.hops)
        _errors(axes, [p.hops for p in those], those, look, look.dash)
    axes.axhline(points[0].guess, color=INK, linestyle="--", linewidth=0.9)
    axes.set_xticks(sorted({p.hops for p in points}))


def _others(axes: Axes, points: Sequence[Point], looks: Mapping[str, Look]) -> None:
    axes.set_title("other formulations")
    width = 0.7 / max(1, len(looks))
    for place, formulation in enumerate(OTHERS):
        for number, (model, look) in enumerate(looks.items()):
            those = [p for p in points if p.model == model and p.formulation == formulation]
            at = place + (number - (len(looks) - 1) / 2) * width
            _errors(axes, [at] * len(those), those, look, "none")
        floors = next((p for p in points if p.formulation == formulation), None)
        if floors is not None:
            edges = (place - 0.42, place + 0.42)
            axes.hlines(floors.guess, *edges, color=INK, linestyle="--", linewidth=0.9)
            if floors.shortcut > floors.guess:
                axes.hlines(floors.shortcut, *edges, color=INK, linestyle=":", linewidth=1.1)
    axes.set_xticks(range(len(OTHERS)), OTHERS)
    axes.set_xlim(-0.5, len(OTHERS) - 0.5)


def _errors(axes: Axes, at: Sequence[float], points: Sequence[Point], look: Look, dash: str) -> None:
    """Draw points with their intervals."""
    if not points:
        return
    heights = [p.accuracy or 0.0 for p in points]
    below = [max(0.0, (p.accuracy or 0.0) - p.low) for p in points]
    above = [max(0.0, p.high - (p.accuracy or 0.0)) for p in points]
    axes.errorbar(
        at, heights, [below, above], color=look.color, marker=look.marker, linestyle=dash, elinewidth=1, capsize=2
    )
