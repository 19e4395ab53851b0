"""From records to numbers: one point for each model, formulation and D; comparisons; accuracy by place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hopscope.benchmark.settings import BenchmarkSettings, Cell, Mode
from hopscope.benchmark.statistics import at_least, mcnemar, paired_interval
from hopscope.benchmark.trial import Record
from hopscope.records import RecordFormat, content_hash, plain
from hopscope.statistics import wilson


@dataclass(frozen=True)
class Point:
    """What a model did at one point of Figure 2.

    In both modes the accuracy is that of the answers that come within the allowed attempts. Exact mode gives its
    expectation: a question counts as much as it is likely to get an acceptable answer in them. There counts are
    expected numbers, and intervals and tests take them for counts of draws, which is cautious: probabilities vary less.

    Attributes:
        model, formulation, hops: the point.
        mode: `sample` or `exact`.
        asked: how many questions were put.
        unanswered: questions given up on because calls failed; they are in no other number.
        accepted: questions with an acceptable answer.
        never_accepted: questions without one in all their attempts.
        correct: right answers among the accepted.
        accuracy: their share, as in the paper; None where nothing was accepted.
        low, high: its 95% Wilson interval.
        lowest, highest: the accuracy if the questions never accepted had all been wrong, or all right.
        limit: exact mode: mean of P(correct) / P(acceptable), the accuracy if one asked without end.
        one_spelling: exact mode: questions weighed in one spelling of their answers, which sampling does not do.
        first_accuracy: the share that was right at the first attempt, among the answered questions.
        first_acceptance: the share that was acceptable at the first attempt, among the answered questions.
        mean_attempts: how many replies a question took; in exact mode, how many it would take without end.
        guess: accuracy of a random guess.
        shortcut: accuracy of a clever guess that skips lines.
        p_guess: the probability of doing as well by guessing.
        p_shortcut: the probability of doing as well by the best shortcut.
        reasoned: questions at which the provider reported hidden reasoning: there the answer was not direct.
        failures: calls that failed and were made again.
        input_tokens, output_tokens, reasoning_tokens: over all attempts.
        cost: US dollars; None where no price is known.
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
        settings: how the questions were put, extensions among them.
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
        """Read a summary.

        Raises:
            InputError: there is none, it is damaged, or it is another file.
        """
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
