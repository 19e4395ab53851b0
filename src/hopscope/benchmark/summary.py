"""From records to numbers: one row a model, formulation and D."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hopscope.benchmark.results import Results
from hopscope.benchmark.settings import Cell
from hopscope.benchmark.statistics import at_least, mcnemar, wilson

Record = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """What a model did at one point of Figure 2.

    In exact mode the accuracies are means of probabilities, `mean_attempts` is their expectation, and the intervals
    and tests take the sum of probabilities for a count of draws, which is cautious: probabilities vary less.

    Attributes:
        model, formulation, hops: which point.
        mode: `sample` or `exact`.
        asked: questions put.
        unanswered: questions given up on because calls failed; they are in no other number.
        accepted: questions with an acceptable answer.
        never_accepted: questions without one in all their attempts.
        accuracy: right answers among the accepted, as in the paper.
        low, high: its 95% Wilson interval.
        first_accuracy: right at the first attempt, among the answered.
        first_acceptance: acceptable at the first attempt, among the answered.
        mean_attempts: replies a question took.
        guess: accuracy of a random guess.
        shortcut: accuracy of a clever guess that skips lines.
        p_guess: chance of doing as well by guessing.
        p_shortcut: chance of doing as well by the best shortcut.
        reasoned: questions at which the provider reported hidden reasoning: there the answer was not direct.
        failures: calls that failed and were made again.
        input_tokens, output_tokens, reasoning_tokens: over all attempts.
        cost: US dollars; None where no price is known.
    """

    model: str
    formulation: str
    hops: int
    mode: str
    asked: int
    unanswered: int
    accepted: int
    never_accepted: int
    accuracy: float | None
    low: float
    high: float
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


def cell_of(record: Record) -> Cell:
    """The point a record belongs to."""
    return Cell(record["formulation"], record["hops"])


def rate(record: Record) -> float:
    """How right an accepted answer is: 0 or 1, or in exact mode a probability."""
    return float(record["accuracy"] if record["mode"] == "exact" else record["correct"])


def usable(records: Iterable[Record]) -> list[Record]:
    """The records with an acceptable answer."""
    return [r for r in records if r["error"] is None and (r["mode"] == "exact" or r["accepted"] is not None)]


def summarise(records: Sequence[Record]) -> Row:
    """The row of records of one model and point; at least one."""
    first = records[0]
    answered = [r for r in records if r["error"] is None]
    accepted = usable(records)
    right, trials = sum(map(rate, accepted)), len(accepted)
    low, high = wilson(right, trials)
    exact = first["mode"] == "exact"
    costs = [r["cost"] for r in records if r.get("cost") is not None]
    attempts = [1 / max(r["p_acceptable"], 1e-300) if exact else r["attempts"] for r in answered]
    return Row(
        model=first["model"],
        formulation=first["formulation"],
        hops=first["hops"],
        mode=first["mode"],
        asked=len(records),
        unanswered=len(records) - len(answered),
        accepted=trials,
        never_accepted=len(answered) - trials,
        accuracy=right / trials if trials else None,
        low=low,
        high=high,
        first_accuracy=_mean([r["p_correct"] if exact else r["first_correct"] for r in answered]),
        first_acceptance=_mean([r["p_acceptable"] if exact else r["first_accepted"] for r in answered]),
        mean_attempts=_mean(attempts),
        guess=first["guess"],
        shortcut=first["shortcut"],
        p_guess=at_least(int(right), trials, first["guess"]),
        p_shortcut=at_least(int(right), trials, first["shortcut"]),
        reasoned=sum(bool(r.get("reasoned")) for r in records),
        failures=sum(len(r.get("failures", ())) for r in records),
        input_tokens=_total(records, "input_tokens"),
        output_tokens=_total(records, "output_tokens"),
        reasoning_tokens=_total(records, "reasoning_tokens"),
        cost=sum(costs) if costs else None,
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _total(records: Sequence[Record], name: str) -> int:
    return sum(r.get(name, 0) for r in records)


def group(records: Iterable[Record]) -> dict[Cell, list[Record]]:
    """Records by point, each in question order."""
    found: dict[Cell, list[Record]] = {}
    for record in sorted(records, key=lambda r: (r["formulation"], r["hops"], r["index"])):
        found.setdefault(cell_of(record), []).append(record)
    return found


def rows(results: Results) -> list[Row]:
    """All rows of a results folder: models as they came, formulations by name, D ascending."""
    return [
        summarise(records) for model in results.models for records in group(results.records(model).values()).values()
    ]


@dataclass(frozen=True)
class Place:
    """Accuracy by where a fact of the queried chain stood.

    Attributes:
        model, formulation, hops: which point.
        lookup: which fact, counted from 1 at the question.
        line: where it stood, counted from 1.
        accepted: questions in which it stood there.
        accuracy: right answers among them, with its 95% Wilson interval `low`, `high`.
    """

    model: str
    formulation: str
    hops: int
    lookup: int
    line: int
    accepted: int
    accuracy: float
    low: float
    high: float


def places(records: Sequence[Record]) -> list[Place]:
    """Accuracy by line position of the queried chain's facts, for records of one model and point."""
    rates: dict[tuple[int, int], list[float]] = {}
    for record in usable(records):
        for lookup, line in enumerate(record["lines"], start=1):
            rates.setdefault((lookup, line), []).append(rate(record))
    found = []
    for (lookup, line), values in sorted(rates.items()):
        point = (records[0]["model"], *cell_of(records[0]))
        found.append(
            Place(*point, lookup, line, len(values), sum(values) / len(values), *wilson(sum(values), len(values)))
        )
    return found


@dataclass(frozen=True)
class Pair:
    """Two models on the same questions.

    Attributes:
        first, second, formulation, hops: who, and which point.
        both: questions that both answered acceptably.
        only_first, only_second: right answers of one model alone.
        difference: accuracy of the first less that of the second, on those questions.
        p: exact McNemar test.
    """

    first: str
    second: str
    formulation: str
    hops: int
    both: int
    only_first: int
    only_second: int
    difference: float
    p: float


def compare(first: Sequence[Record], second: Sequence[Record]) -> Pair | None:
    """Sampled records of two models at one point, paired by prompt; None without a common question."""
    there = {r["id"]: r for r in usable(second) if r["mode"] == "sample"}
    both = [(r, there[r["id"]]) for r in usable(first) if r["mode"] == "sample" and r["id"] in there]
    if not both:
        return None
    only_first = sum(a["correct"] and not b["correct"] for a, b in both)
    only_second = sum(b["correct"] and not a["correct"] for a, b in both)
    names = (first[0]["model"], second[0]["model"], *cell_of(first[0]))
    difference = (only_first - only_second) / len(both)
    return Pair(*names, len(both), only_first, only_second, difference, mcnemar(only_first, only_second))
