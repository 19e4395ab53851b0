"""Blind solvers: programs that follow no chain and answer by positions of words. Retrieval must beat them all.

Their accuracy on fresh questions, and whether the answers are spread evenly, is the test of claim C15: a formulation on
which a blind solver beats guessing would measure that shortcut (`hopscope.benchmark.guessing`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hopscope.problem.text.questions import Question


class Sight(NamedTuple):
    """What a blind solver sees of a question; words are the pieces of its lines, known by their text alone.

    Attributes:
        acceptable, values: those answers, ascending; every mention of one, in text order, as (word, line, character).
        asked: the lines of the facts that mention a symbol of the question, in text order, then the question's line.
        start: the first character of the first of these lines.
    """

    acceptable: tuple[str, ...]
    values: tuple[tuple[str, int, int], ...]
    asked: tuple[int, ...]
    start: int

    @property
    def words(self) -> list[str]:
        """The values without their positions."""
        return [word for word, _, _ in self.values]


def look(question: Question) -> Sight:
    """What a blind solver sees of a question."""
    lines = (*question.facts, question.question)
    symbols = [[word for word, role in zip(line.pieces, line.roles, strict=True) if role is not None] for line in lines]
    names = {word.casefold() for word in symbols[-1]}
    asked = tuple(number for number, words in enumerate(symbols) if names & {word.casefold() for word in words})
    values, starts, at = [], [], 0
    for number, line in enumerate(lines):
        starts.append(at)
        for word, role in zip(line.pieces, line.roles, strict=True):
            if role is not None and word in question.acceptable:
                values.append((word, number, at))
            at += len(word)
        at += 1
    return Sight(question.acceptable, tuple(values), asked, starts[asked[0]])


def _same_line(sight: Sight) -> str:
    """The last value on the first line with the asked symbol that has one; if none has, the last value before them."""
    for line in sight.asked:
        if words := [word for word, number, _ in sight.values if number == line]:
            return words[-1]
    return ([word for word, number, _ in sight.values if number < sight.asked[0]] or [sight.words[-1]])[-1]


BLIND: dict[str, Callable[[Sight], str]] = {
    "first value": lambda sight: sight.words[0],
    "second value": lambda sight: sight.words[1],
    "third value": lambda sight: sight.words[2],
    "last value": lambda sight: sight.words[-1],
    "last but one": lambda sight: sight.words[-2],
    "most frequent value": lambda sight: max(sight.words, key=sight.words.count),
    "rarest value": lambda sight: min(sight.words, key=sight.words.count),
    "nearest value": lambda sight: min(sight.values, key=lambda value: abs(value[2] - sight.start))[0],
    "value on the same line": _same_line,
    "value at the same place": lambda sight: sight.words[sight.asked[0] % len(sight.acceptable) % len(sight.words)],
    "first answer in order": lambda sight: sight.acceptable[0],
    "last answer in order": lambda sight: sight.acceptable[-1],
}
"""The blind solvers, by name; "at the same place": with the rank among values that the asked line has in its block."""
