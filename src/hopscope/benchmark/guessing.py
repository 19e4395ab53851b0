"""What can be reached without retrieval (claim C15): blind solvers on fresh questions; the spread of answers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from hopscope.benchmark.points import at_least
from hopscope.problem.text.blind import BLIND, look
from hopscope.problem.text.formulation import Draw
from hopscope.problem.text.questions import Question, questions
from hopscope.statistics import wilson

FRESH = 1_015
"""Seed of questions that no benchmark asks by default; `remembered answer` learns from those of the next seed."""


@dataclass(frozen=True)
class BlindScore:
    """What one blind solver reached: `correct` of `asked`, its accuracy's 95% Wilson interval, and a random guess's.

    Attributes:
        solver: one of `hopscope.problem.text.blind.BLIND`, `random answer`, or `remembered answer`, the commonest
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


@dataclass(frozen=True)
class AnswerSpread:
    """How often each acceptable answer, ascending, was right; `p` of the chi-square test that all are equally
    likely."""

    formulation: str
    hops: int
    counts: tuple[int, ...]
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


def answer_spread(asked: Sequence[Question]) -> AnswerSpread:
    """How evenly the answers of some questions of one formulation and D are spread."""
    from scipy.stats import chisquare

    counts = Counter(question.answer for question in asked)
    each = tuple(counts[answer] for answer in asked[0].acceptable)
    return AnswerSpread(asked[0].formulation, asked[0].hops, each, float(chisquare(each).pvalue))


def _remembered(asked: Sequence[Question], seen: Sequence[Question]) -> list[str]:
    memory = defaultdict[str, Counter[str]](Counter)
    for question in seen:
        memory[question.question.text][question.answer] += 1
    known = {text: answers.most_common(1)[0][0] for text, answers in memory.items()}
    return [known.get(question.question.text, question.acceptable[0]) for question in asked]
