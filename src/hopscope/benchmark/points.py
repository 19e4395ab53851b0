"""Compute numbers from records: a point for each model, formulation and D; pairs of models; accuracy by line."""

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
    """The results of a model at one point of Figure 2.

    In exact mode, counts are expected numbers. Intervals and tests treat them as counts of draws, which is cautious,
    since probabilities vary less.

    Attributes:
        asked: number of questions asked.
        unanswered: number of questions given up because calls failed; they are neither accepted nor never accepted.
        accepted: number of questions with an acceptable answer within the allowed attempts.
        never_accepted: number of questions without an acceptable answer in all their attempts.
        correct: number of right answers among the accepted ones.
        accuracy: the share of right answers among the accepted ones, as in the paper; None if none was accepted.
        low, high: the 95% Wilson interval of the accuracy.
        lowest, highest: the accuracy if the questions that were never accepted had all been wrong, or all right.
        share: in exact mode, the mean of P(correct) / P(acceptable), which is the accuracy with unlimited attempts.
        argmax: in exact mode, the share of questions whose right answer is the likeliest acceptable answer.
        unweighed: in exact mode, the mean probability of texts that could become acceptable but were not followed.
        first_accuracy, first_acceptance: the shares of answered questions whose first reply is right, and acceptable;
            in exact mode, the means of P(correct) and P(acceptable).
        mean_attempts: mean number of replies to a question; in exact mode, the expected number without a limit.
        guess, shortcut: the accuracy of a random guess, and of the best guess that leaves certain lines unread.
        p_guess, p_shortcut: the probability that such guesses do at least as well as the model.
        reasoned: number of questions for which the provider reported hidden reasoning.
        unchanged: number of repeated attempts if all of them gave the first reply again; otherwise 0.
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
    """Accuracy and its 95% Wilson interval if the fact of retrieval step `step` is in line `line`, both from 1."""

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
        both: number of questions that both models answered acceptably; in exact mode, the expected number.
        only_first, only_second: number of these questions that only this model got right.
        difference: accuracy of the first model minus accuracy of the second model on these questions.
        p: p-value of McNemar's exact test; None in exact mode.
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
    """Compute the point of one model at one formulation and number of hops, from its records."""
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
    """Group records by point; the records of a point are in question order."""
    found = defaultdict[Cell, list[Record]](list)
    for record in sorted(records, key=lambda record: (record.formulation, record.hops, record.index)):
        found[Cell(record.formulation, record.hops)].append(record)
    return found


def by_line(model: str, cell: Cell, records: Sequence[Record], settings: BenchmarkSettings) -> list[LineAccuracy]:
    """Return the accuracy for each retrieval step and each line in which the fact of this step stands."""
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
    """Compare two models' records at one point, paired by question; None if no question was answered by both models."""
    others, attempts = {record.id: record for record in second}, settings.attempts
    pairs = [(a, b, a.acceptance(attempts) * b.acceptance(attempts)) for a in first if (b := others.get(a.id))]
    both = sum(chance for _, _, chance in pairs)
    if not both:
        return None
    only_first = sum(a.share * (1 - b.share) * chance for a, b, chance in pairs)
    only_second = sum(b.share * (1 - a.share) * chance for a, b, chance in pairs)
    changes = [a.share - b.share for a, b, chance in pairs if chance]
    p = sign_test(changes) if settings.mode == "sample" else None  # McNemar's test, as shares are 0 or 1
    where = (first[0].model, second[0].model, first[0].formulation, first[0].hops)
    return ModelPair(*where, both, only_first, only_second, (only_first - only_second) / both, p)


def at_least(successes: float, trials: float, rate: float) -> float:
    """Return the probability of `successes` or more out of `trials` at `rate`; fractions are rounded cautiously."""
    from scipy.stats import binomtest

    right, whole = floor(successes + 1e-9), ceil(trials - 1e-9)
    return float(binomtest(right, whole, rate, alternative="greater").pvalue) if whole else 1.0
