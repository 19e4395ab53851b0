"""Blind programs: they follow no chain and answer by positions of words; a formulation must be above their reach.

A formulation on which one of them beats guessing would measure that shortcut.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hopscope.benchmark.points import at_least
from hopscope.problem.text.formulation import Draw
from hopscope.problem.text.questions import Question, questions
from hopscope.statistics import wilson

FRESH = 1_016
"""Seed of questions that nothing else asks; `remembered answer` learns from those of the next seed."""


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


@dataclass(frozen=True)
class BlindScore:
    """What one blind solver reached: `correct` of `asked`, its accuracy's 95% Wilson interval, and a random guess's.

    Attributes:
        solver: one of `BLIND`, `random answer`, or `remembered answer`, the commonest
            answer to the same last line among as many other questions, their facts unread.
        p: probability of doing as well by guessing, exact and one-sided; of many solvers one may well be below 0.05.
    """

    formulation: str
    hops: int
    solver: str
    asked: int
    correct: int
    accuracy: float
    low: float
    high: float
    guess: float
    p: float


def blind_scores(formulation: str, hops: int | None = None, count: int = 2000) -> tuple[BlindScore, ...]:
    """The scores of every blind solver on fresh questions of a formulation."""
    asked = questions(formulation, hops, count, FRESH)
    sights = [look(question) for question in asked]
    said = {name: [solve(sight) for sight in sights] for name, solve in BLIND.items()}
    said["random answer"] = [q.acceptable[Draw("guess", q.id).below(len(q.acceptable))] for q in asked]
    said["remembered answer"] = _remembered(asked, questions(formulation, hops, count, FRESH + 1))
    found: list[BlindScore] = []
    for name, answers in said.items():
        right = sum(question.answer == answer for question, answer in zip(asked, answers, strict=True))
        guess, ends = asked[0].guess, wilson(right, count)
        p = at_least(right, count, guess)
        found.append(BlindScore(formulation, asked[0].hops, name, count, right, right / count, *ends, guess, p))
    return tuple(found)


def _remembered(asked: Sequence[Question], seen: Sequence[Question]) -> list[str]:
    memory = defaultdict[str, Counter[str]](Counter)
    for question in seen:
        memory[question.question.text][question.answer] += 1
    known = {text: answers.most_common(1)[0][0] for text, answers in memory.items()}
    return [known.get(question.question.text, question.acceptable[0]) for question in asked]
