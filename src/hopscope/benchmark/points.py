"""From records to numbers: one point for each model, formulation and D; comparisons; accuracy by place.

The statistics are scipy's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor
from pathlib import Path

import numpy as np

from hopscope.benchmark.answers import Record
from hopscope.benchmark.settings import BenchmarkSettings, Cell, Mode
from hopscope.records import RecordFormat, content_hash, plain
from hopscope.statistics import wilson


@dataclass(frozen=True)
class Point:
    """What a model did at one point of Figure 2.

    In both modes the accuracy is that of the answers that come within the allowed attempts. Exact mode gives its
    expectation: a question counts as much as it is likely to get an acceptable answer in them. There counts are
    expected numbers, and intervals and tests take them for counts of draws, which is cautious: probabilities vary less.

    Attributes:
        unanswered: questions given up on because calls failed; they are in no other number.
        accepted: questions with an acceptable answer; `never_accepted`: without one in all their attempts.
        correct: right answers among the accepted; `accuracy`: their share, as in the paper, None where nothing was
            accepted; `low`, `high`: its 95% Wilson interval.
        lowest, highest: the accuracy if the questions never accepted had all been wrong, or all right.
        limit: exact mode: mean of P(correct) / P(acceptable), the accuracy if one asked without end.
        one_spelling: exact mode: questions weighed in one spelling of their answers, which sampling does not do.
        first_accuracy, first_acceptance: the share right, and acceptable, at the first attempt, among the answered.
        mean_attempts: how many replies a question took; in exact mode, how many it would take without end.
        guess, shortcut: accuracy of a random guess, and of a clever one that skips lines; `p_guess`, `p_shortcut`: the
            probability of doing as well by it.
        reasoned: questions at which the provider reported hidden reasoning: there the answer was not direct.
        failures: calls that failed and were made again.
        input_tokens, output_tokens, reasoning_tokens, cost: over all attempts; US dollars, None where no price is
            known.
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
    limit: float | None
    one_spelling: int
    first_accuracy: float | None
    first_acceptance: float | None
    mean_attempts: float | None
    guess: float
    shortcut: float
    p_guess: float
    p_shortcut: float
    reasoned: int
    failures: int
    input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cost: float | None

    @property
    def accepted_share(self) -> float:
        """The share of all questions put, unanswered ones too, that got an acceptable answer."""
        return self.accepted / self.asked


@dataclass(frozen=True)
class Place:
    """Accuracy, with its 95% Wilson interval, where the fact read at a `lookup` stood in a `line`, both from 1."""

    model: str
    formulation: str
    hops: int
    lookup: int
    line: int
    accepted: float
    accuracy: float
    low: float
    high: float


@dataclass(frozen=True)
class Pair:
    """Two models on the same questions.

    Attributes:
        first, second, formulation, hops: the two models, and the point.
        both: questions that both answered acceptably; in exact mode their expected number.
        only_first, only_second: those of them that one model alone got right.
        difference: the first model's accuracy less the second's, on those questions.
        low, high: its 95% interval by a bootstrap over questions, pairs kept together; None where none was made.
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
    low: float | None
    high: float | None
    p: float | None


@dataclass(frozen=True)
class Summary:
    """All numbers of a results folder; `summary.json`.

    Attributes:
        points: models as they came, formulations by name, D ascending.
        comparisons: pairs of models at each point that both were asked.
    """

    settings: BenchmarkSettings
    points: tuple[Point, ...]
    comparisons: tuple[Pair, ...]

    def write(self, path: Path) -> None:
        """Write the summary, atomically."""
        _FORM.write(path, self, content_hash(plain(self.settings)))

    @staticmethod
    def read(path: Path) -> Summary:
        """Read a summary; an `InputError` says that there is none, or that it is damaged or another file."""
        return _FORM.read(path)


_FORM = RecordFormat(Summary, "benchmark summary", "a benchmark's summary")


def summarise(model: str, cell: Cell, records: Sequence[Record], settings: BenchmarkSettings) -> Point:
    """The point of one model and cell, from its records, at least one."""
    exact, first = settings.mode == "exact", records[0]
    answered = [record for record in records if record.error is None]
    chances = [record.acceptance(settings.attempts) for record in answered]
    accepted = sum(chances)
    right = sum(record.rate * chance for record, chance in zip(answered, chances, strict=True))
    never = len(answered) - accepted
    low, high = wilson(right, accepted)
    costs = [record.cost for record in records if record.cost is not None]
    counted = ("reasoned", "input_tokens", "output_tokens", "reasoning_tokens")
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
        limit=_mean([record.rate for record in answered]) if exact else None,
        one_spelling=sum(record.one_spelling is not False for record in answered) if exact else 0,
        first_accuracy=_mean([record.p_correct for record in answered]),
        first_acceptance=_mean([record.p_acceptable for record in answered]),
        mean_attempts=_mean([1 / max(r.p_acceptable, 1e-300) if exact else r.attempts for r in answered]),
        guess=first.guess,
        shortcut=first.shortcut,
        p_guess=at_least(right, accepted, first.guess),
        p_shortcut=at_least(right, accepted, first.shortcut),
        failures=sum(len(record.failures) for record in records),
        cost=sum(costs) if costs else None,
        **{name: sum(getattr(record, name) for record in records) for name in counted},
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def group(records: Iterable[Record]) -> dict[Cell, list[Record]]:
    """Records by point, in question order within each."""
    found: dict[Cell, list[Record]] = {}
    for record in sorted(records, key=lambda record: (record.cell, record.index)):
        found.setdefault(record.cell, []).append(record)
    return found


def places(model: str, cell: Cell, records: Sequence[Record], settings: BenchmarkSettings) -> list[Place]:
    """Accuracy by line position of the queried chain's facts."""
    there: dict[tuple[int, int], list[Record]] = {}
    for record in records:
        for lookup, line in enumerate(record.lines, start=1):
            there.setdefault((lookup, line), []).append(record)
    points = [(where, summarise(model, cell, those, settings)) for where, those in sorted(there.items())]
    return [
        Place(model, *cell, *where, point.accepted, point.accuracy, point.low, point.high)
        for where, point in points
        if point.accuracy is not None
    ]


def compare(first: Sequence[Record], second: Sequence[Record], settings: BenchmarkSettings) -> Pair | None:
    """Compare two models' records at one point, paired by question; None where no question was answered by both."""
    there, attempts = {record.id: record for record in second}, settings.attempts
    pairs = [(a, b, a.acceptance(attempts) * b.acceptance(attempts)) for a in first if (b := there.get(a.id))]
    kept = [(a.rate, b.rate, chance) for a, b, chance in pairs if chance]
    if not kept:
        return None
    both = sum(chance for _, _, chance in kept)
    only_first = sum(a * (1 - b) * chance for a, b, chance in kept)
    only_second = sum(b * (1 - a) * chance for a, b, chance in kept)
    low, high = paired_interval([a - b for a, b, _ in kept], [chance for _, _, chance in kept])
    p = mcnemar(round(only_first), round(only_second)) if settings.mode == "sample" else None
    difference = (only_first - only_second) / both
    who = (first[0].model, second[0].model, *first[0].cell)
    return Pair(*who, both, only_first, only_second, difference, low, high, p)


def at_least(successes: float, trials: float, rate: float) -> float:
    """Exact one-sided p-value: the probability of `successes` or more out of `trials` at `rate`.

    Of expected numbers, successes are rounded down and trials up, which is cautious.
    """
    from scipy.stats import binomtest

    right, whole = floor(successes + 1e-9), ceil(trials - 1e-9)
    return float(binomtest(right, whole, rate, alternative="greater").pvalue) if whole else 1.0


def mcnemar(only_first: int, only_second: int) -> float:
    """Exact two-sided p-value of McNemar's test, from the questions that one model alone got right."""
    from scipy.stats import binomtest

    discordant = only_first + only_second
    return float(binomtest(only_first, discordant).pvalue) if discordant else 1.0


def paired_interval(
    differences: Sequence[float], weights: Sequence[float], confidence: float = 0.95
) -> tuple[float, float]:
    """Bootstrap interval (percentiles, seeded) for the weighted mean of paired differences, each in -1..1.

    Where all differences are equal a bootstrap shows no spread. Then Wilson's interval at none of n says how many
    questions that tell the two apart might have gone unseen.
    """
    from scipy.stats import bootstrap

    if np.ptp(differences) == 0:
        unseen = wilson(0, sum(weights), confidence)[1]
        return max(-1.0, differences[0] - unseen), min(1.0, differences[0] + unseen)
    found = bootstrap(
        (np.asarray(differences), np.asarray(weights)),
        lambda values, shares, axis=-1: (values * shares).sum(axis) / shares.sum(axis),
        confidence_level=confidence, method="percentile", paired=True, vectorized=True, batch=1000,
        rng=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    return float(found.low), float(found.high)
