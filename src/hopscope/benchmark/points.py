"""From records to numbers: one point for each model, formulation and D; pairs of models; accuracy by line.

The statistics are scipy's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor

from hopscope.benchmark.answers import Record
from hopscope.benchmark.settings import BenchmarkSettings, Cell, Mode
from hopscope.records import RecordFormat
from hopscope.statistics import sign_test, wilson


@dataclass(frozen=True)
class Point:
    """What a model did at one point of Figure 2.

    The accuracy is that of the answers within the allowed attempts. In exact mode counts are expected numbers, and
    intervals and tests take them for counts of draws, which is cautious: probabilities vary less.

    Attributes:
        asked: questions put; `unanswered`: those given up on because calls failed, which are in no other number.
        accepted: questions with an acceptable answer; `never_accepted`: without one in all their attempts.
        correct: right answers among the accepted; `accuracy`: their share, as in the paper, None where nothing was
            accepted; `low`, `high`: its 95% Wilson interval.
        lowest, highest: the accuracy if the questions never accepted had all been wrong, or all right.
        share: exact mode: mean of P(correct) / P(acceptable), the accuracy if one asked without end; `argmax`: how
            often the right answer is the likeliest acceptable one; `unweighed`: mean probability of what might have
            been acceptable and was not followed.
        first_accuracy, first_acceptance: the share right, and acceptable, at the first attempt, among the answered; in
            exact mode mean P(correct) and mean P(acceptable).
        mean_attempts: how many replies a question took; in exact mode, how many it would take without end.
        guess, shortcut: accuracy of a random guess, and of a clever one that skips lines; `p_guess`, `p_shortcut`: the
            probability of doing as well by it.
        reasoned: questions at which the provider reported hidden reasoning: there the answer was not direct.
        unchanged: how often a question was asked again, if that never changed a reply, and 0 if it did.
    """

    model: str
    formulation: str
    hops: int
    mode: Mode
    asked: int
    unanswered: int
    accepted: float
    never_accepted: float
    correct: float
    accuracy: float | None
    low: float
    high: float
    lowest: float
    highest: float
    share: float | None
    argmax: float | None
    unweighed: float | None
    first_accuracy: float | None
    first_acceptance: float | None
    mean_attempts: float | None
    guess: float
    shortcut: float
    p_guess: float
    p_shortcut: float
    reasoned: int
    unchanged: int


@dataclass(frozen=True)
class LineAccuracy:
    """Accuracy, with its 95% Wilson interval, where the fact of a retrieval step stood in a line, both from 1."""

    model: str
    formulation: str
    hops: int
    step: int
    line: int
    accepted: float
    accuracy: float
    low: float
    high: float


@dataclass(frozen=True)
class ModelPair:
    """Two models on the same questions.

    Attributes:
        both: questions that both answered acceptably; in exact mode their expected number.
        only_first, only_second: those of them that one model alone got right.
        difference: the first model's accuracy less the second's, on those questions.
        p: exact McNemar test; None in exact mode.
    """

    first: str
    second: str
    formulation: str
    hops: int
    both: float
    only_first: float
    only_second: float
    difference: float
    p: float | None


@dataclass(frozen=True)
class Summary:
    """All numbers of a results folder: points by model, formulation and D; pairs of models; accuracy by line."""

    settings: BenchmarkSettings
    points: tuple[Point, ...]
    comparisons: tuple[ModelPair, ...]
    lines: tuple[LineAccuracy, ...] = ()


SUMMARY = RecordFormat(Summary, "benchmark summary", "a benchmark's summary")


def summarise(model: str, cell: Cell, records: Sequence[Record], settings: BenchmarkSettings) -> Point:
    """Accuracy, acceptance and attempts of one model at one formulation and number of hops, from its records."""
    exact, first = settings.mode == "exact", records[0]
    answered = [record for record in records if record.error is None]
    chances = [record.acceptance(settings.attempts) for record in answered]
    accepted = sum(chances)
    right = sum(record.share * chance for record, chance in zip(answered, chances, strict=True))
    never = len(answered) - accepted
    low, high = wilson(right, accepted)
    again = [record for record in answered if record.attempts > 1]
    changed = any(record.accepted is not None or len({*record.rejected}) > 1 for record in again)
    return Point(
        model,
        *cell,
        mode=settings.mode,
        asked=len(records),
        unanswered=len(records) - len(answered),
        accepted=accepted,
        never_accepted=never,
        correct=right,
        accuracy=right / accepted if accepted else None,
        low=low,
        high=high,
        lowest=right / len(answered) if answered else 0.0,
        highest=(right + never) / len(answered) if answered else 1.0,
        share=_mean([record.share for record in answered]) if exact else None,
        argmax=_mean([float(record.likeliest) for record in answered]) if exact else None,
        unweighed=_mean([record.unweighed for record in answered]) if exact else None,
        first_accuracy=_mean([record.p_correct for record in answered]),
        first_acceptance=_mean([record.p_acceptable for record in answered]),
        mean_attempts=_mean([1 / max(r.p_acceptable, 1e-300) if exact else r.attempts for r in answered]),
        guess=first.guess,
        shortcut=first.shortcut,
        p_guess=at_least(right, accepted, first.guess),
        p_shortcut=at_least(right, accepted, first.shortcut),
        reasoned=sum(record.reasoned for record in records),
        unchanged=0 if changed else sum(record.attempts - 1 for record in again),
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def group(records: Iterable[Record]) -> dict[Cell, list[Record]]:
    """Records by point, in question order within each."""
    found = defaultdict[Cell, list[Record]](list)
    for record in sorted(records, key=lambda record: (record.formulation, record.hops, record.index)):
        found[Cell(record.formulation, record.hops)].append(record)
    return found


def by_line(model: str, cell: Cell, records: Sequence[Record], settings: BenchmarkSettings) -> list[LineAccuracy]:
    """Accuracy by line position of the queried chain's facts."""
    found = defaultdict[tuple[int, int], list[Record]](list)
    for record in records:
        for where in enumerate(record.lines, start=1):
            found[where].append(record)
    return [
        LineAccuracy(model, *cell, *where, point.accepted, point.accuracy, point.low, point.high)
        for where, those in sorted(found.items())
        if (point := summarise(model, cell, those, settings)).accuracy is not None
    ]


def compare(first: Sequence[Record], second: Sequence[Record], settings: BenchmarkSettings) -> ModelPair | None:
    """Compare two models' records at one point, paired by question; None where no question was answered by both."""
    others, attempts = {record.id: record for record in second}, settings.attempts
    pairs = [(a, b, a.acceptance(attempts) * b.acceptance(attempts)) for a in first if (b := others.get(a.id))]
    both = sum(chance for _, _, chance in pairs)
    if not both:
        return None
    only_first = sum(a.share * (1 - b.share) * chance for a, b, chance in pairs)
    only_second = sum(b.share * (1 - a.share) * chance for a, b, chance in pairs)
    changes = [a.share - b.share for a, b, chance in pairs if chance]
    p = sign_test(changes) if settings.mode == "sample" else None  # of draws, right or wrong, this is McNemar's test
    where = (first[0].model, second[0].model, first[0].formulation, first[0].hops)
    return ModelPair(*where, both, only_first, only_second, (only_first - only_second) / both, p)


def at_least(successes: float, trials: float, rate: float) -> float:
    """The probability of `successes` or more out of `trials` at `rate`; expected numbers are rounded cautiously."""
    from scipy.stats import binomtest

    right, whole = floor(successes + 1e-9), ceil(trials - 1e-9)
    return float(binomtest(right, whole, rate, alternative="greater").pvalue) if whole else 1.0
