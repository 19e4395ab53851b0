"""Blind solvers: programs that follow no chain and answer by where words are. Retrieval must beat them all.

Their accuracy on fresh questions, and whether the answers are spread evenly, is the test of claim C15: a formulation on
which a blind solver beats guessing would measure that shortcut (`hopscope.benchmark.guessing`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from hopscope.problem.text.questions import Question


class Sight(NamedTuple):
    """What a blind solver sees."""

    acceptable: tuple[str, ...]
    """The acceptable answers, ascending."""
    values: tuple[tuple[str, int, int], ...]
    """Every mention of an acceptable answer, in text order, as (word, line, character)."""
    asked: tuple[int, ...]
    """The lines of the facts that mention a symbol of the question, in text order, then the question's line."""
    starts: tuple[int, ...]
    """The first character of every line."""


def look(question: Question) -> Sight:
    """What a blind solver sees of a question; words are the pieces of its lines, known by their text alone."""
    acceptable, lines = question.acceptable, (*question.facts, question.question)
    asking = zip(question.question.pieces, question.question.roles, strict=True)
    names = {word.casefold() for word, role in asking if role is not None}
    values, asked, starts, at = [], [], [], 0
    for number, line in enumerate(lines):
        starts.append(at)
        for word, role in zip(line.pieces, line.roles, strict=True):
            if role is not None and word in acceptable:
                values.append((word, number, at))
            if role is not None and word.casefold() in names and number not in asked:
                asked.append(number)
            at += len(word)
        at += 1
    return Sight(acceptable, tuple(values), tuple(asked), tuple(starts))


def _by_count(choose: Callable[..., str]) -> Callable[[Sight], str]:
    """The most frequent or the rarest value; of several, the one mentioned first."""

    def solver(sight: Sight) -> str:
        counts = Counter(word for word, _, _ in sight.values)
        return choose(counts, key=counts.__getitem__)

    return solver


def _nearest(sight: Sight) -> str:
    """The value nearest to the start of the first line that mentions the asked symbol."""
    start = sight.starts[sight.asked[0]]
    return min(sight.values, key=lambda value: abs(value[2] - start))[0]


def _same_line(sight: Sight) -> str:
    """The last value on the first line with the asked symbol that has one; if none has, the last value before them."""
    for line in sight.asked:
        if words := [word for word, number, _ in sight.values if number == line]:
            return words[-1]
    return ([word for word, number, _ in sight.values if number < sight.asked[0]] or [sight.values[-1][0]])[-1]


def _same_place(sight: Sight) -> str:
    """The value with the same rank among the values as the asked symbol's line has in its block."""
    return sight.values[sight.asked[0] % len(sight.acceptable) % len(sight.values)][0]


def _nth(n: int) -> Callable[[Sight], str]:
    return lambda sight: sight.values[n % len(sight.values)][0]


def _always(n: int) -> Callable[[Sight], str]:
    return lambda sight: sight.acceptable[n % len(sight.acceptable)]


BLIND: dict[str, Callable[[Sight], str]] = {
    "first value": _nth(0),
    "second value": _nth(1),
    "third value": _nth(2),
    "last value": _nth(-1),
    "last but one": _nth(-2),
    "most frequent value": _by_count(max),
    "rarest value": _by_count(min),
    "nearest value": _nearest,
    "value on the same line": _same_line,
    "value at the same place": _same_place,
    "first answer in order": _always(0),
    "last answer in order": _always(-1),
}
"""The blind solvers, by name. Each gives one of the acceptable answers."""
