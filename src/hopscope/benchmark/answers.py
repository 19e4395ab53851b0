"""One question put to one model until its text counts as an acceptable answer (Appendix A), whoever carries the texts.

The answer rules judge a whole text: an answer is never searched for within it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hopscope.benchmark.settings import Cell, Mode
from hopscope.problem.text.questions import Question

_WRAPPERS = (("**", "**"), ("`", "`"), ('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’"))


def exact(text: str, acceptable: Sequence[str]) -> str | None:
    """The text without surrounding white space, if it is an acceptable answer (the paper's rule); else None."""
    stripped = text.strip()
    return stripped if stripped in acceptable else None


def lenient(text: str, acceptable: Sequence[str]) -> str | None:
    """As `exact`, but also with one trailing period, quotes, `**`, backticks, or in another case."""
    bare, period = text.strip(), False
    while (peeled := _peel(bare)) != bare or (bare.endswith(".") and not period):
        if peeled == bare:
            peeled, period = bare[:-1].strip(), True
        bare = peeled
    folded = {answer.casefold(): answer for answer in acceptable}
    return folded.get(bare.casefold())


def _peel(text: str) -> str:
    """The text without one pair of wrappers."""
    for left, right in _WRAPPERS:
        if len(text) >= len(left) + len(right) and text.startswith(left) and text.endswith(right):
            return text[len(left) : len(text) - len(right)].strip()
    return text


AnswerRule = Callable[[str, Sequence[str]], str | None]
RULES: dict[str, AnswerRule] = {"exact": exact, "lenient": lenient}
"""The answer rules by name, which is part of every record."""

_AROUND = {"exact": r"\s", "lenient": rf"[\s{re.escape(''.join(left + right for left, right in _WRAPPERS))}.]"}
"""By rule, what it may strip around an answer; `\\s` is what `str.strip` takes, white space beyond ASCII too."""


def without_frame(name: str, text: str) -> str:
    """The text without what a rule may strip around an answer, and in the case in which the rule compares."""
    begun = re.sub(rf"\A{_AROUND[name]}+", "", text)
    return _folded(name, re.sub(rf"{_AROUND[name]}+\Z", "", begun))


def _folded(name: str, text: str) -> str:
    return text.casefold() if name == "lenient" else text


def hopeful(name: str, text: str, acceptable: Sequence[str]) -> bool:
    """Whether a rule may still accept `text` with more written after it; never False where it may."""
    begun = _folded(name, re.sub(rf"\A{_AROUND[name]}+", "", text))
    whole, answers = without_frame(name, text), [_folded(name, answer) for answer in acceptable]
    return any(answer.startswith(begun) or answer == whole for answer in answers)


def last_line(text: str) -> str:
    """The last line that is not blank, where a model that was asked to think first puts its answer."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


@dataclass(frozen=True)
class Record:
    """What became of a question; a line of a records file. Fields of the other mode keep their defaults.

    Attributes:
        error: why the question was given up; it is asked again when the benchmark is resumed.
        failures: calls that brought no reply, by kind.
        attempts: how many replies there were; `rejected`: their texts but for `response`, the `accepted` one.
        correct: whether the accepted answer is the right one; `first_accepted`, `first_correct`: of the first reply.
        input_tokens, output_tokens, reasoning_tokens, reasoned, cost: as in `Reply`, over all attempts.
        weights: exact mode: the probability of each acceptable answer, whole, with its end.
        unweighed: exact mode: the probability of texts that might still have been acceptable and were not followed.
        one_spelling: exact mode: answers were weighed in one spelling alone, as by endpoints, which is another
            quantity than sampling measures.
    """

    model: str
    id: str
    formulation: str
    hops: int
    index: int
    prompt_hash: str
    answer: str
    guess: float
    shortcut: float
    lines: tuple[int, ...]
    mode: Mode
    error: str | None = None
    failures: tuple[str, ...] = ()
    rule: str = "exact"
    attempts: int = 0
    accepted: str | None = None
    correct: bool = False
    first_accepted: bool = False
    first_correct: bool = False
    response: str | None = None
    rejected: tuple[str, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    reasoned: bool = False
    cost: float | None = None
    weights: dict[str, float] | None = None
    unweighed: float = 0.0
    one_spelling: bool | None = None

    @property
    def cell(self) -> Cell:
        """The point of Figure 2 that it belongs to."""
        return Cell(self.formulation, self.hops)

    @property
    def p_correct(self) -> float:
        """Probability that a reply is the right answer: 0 or 1 for the first reply to a sampled question."""
        return float(self.first_correct) if self.weights is None else self.weights[self.answer]

    @property
    def p_acceptable(self) -> float:
        """Probability that a reply is acceptable: 0 or 1 for the first reply to a sampled question."""
        return float(self.first_accepted) if self.weights is None else min(1.0, sum(self.weights.values()))

    @property
    def rate(self) -> float:
        """How right an accepted answer is: 0 or 1, or in exact mode P(correct) / P(acceptable)."""
        if self.weights is None:
            return float(self.correct)
        return self.p_correct / self.p_acceptable if self.p_acceptable > 0 else self.guess

    def acceptance(self, attempts: int) -> float:
        """Probability of an acceptable answer within so many attempts: 0 or 1 for a sampled question."""
        if self.error is not None:
            return 0.0
        return float(self.accepted is not None) if self.weights is None else 1 - (1 - self.p_acceptable) ** attempts


Keep = Callable[[Record], None]
"""A function that takes each record as soon as its question is settled."""


@dataclass(frozen=True)
class Reply:
    """What a model gave back in one attempt.

    Attributes:
        finished: whether it ended by itself; a text that was cut off is no answer.
        input_tokens, output_tokens, reasoning_tokens: as the provider counts them.
        reasoned: whether the provider reported hidden reasoning in any way, also by more tokens than the text has.
        cost: US dollars; None where no price is known.
    """

    text: str
    finished: bool = True
    input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    reasoned: bool = False
    cost: float | None = None


@dataclass
class Trial:
    """The attempts at one question: an acceptable answer, `limit` replies or an `error` settles it."""

    question: Question
    rule: str
    limit: int
    replies: list[Reply] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    error: str | None = None

    @property
    def accepted(self) -> str | None:
        """The acceptable answer that the last reply gave, if it gave one."""
        return self._judge(self.replies[-1]) if self.replies else None

    @property
    def settled(self) -> bool:
        """Whether there is nothing left to ask."""
        return self.error is not None or self.accepted is not None or len(self.replies) >= self.limit

    def _judge(self, reply: Reply) -> str | None:
        text = last_line(reply.text) if self.question.extensions.think else reply.text
        return RULES[self.rule](text, self.question.acceptable) if reply.finished else None

    def record(self, model: str, mode: Mode = "sample", **given: Any) -> Record:
        """Everything about the question and its attempts; in exact mode `weights` and `unweighed` are given instead."""
        question, replies, accepted = self.question, self.replies, self.accepted
        asked = ("id", "formulation", "hops", "index", "prompt_hash", "answer", "guess", "shortcut", "lines")
        counted = ("input_tokens", "output_tokens", "reasoning_tokens")
        first = self._judge(replies[0]) if replies else None
        costs = [reply.cost for reply in replies if reply.cost is not None]
        return Record(
            model=model,
            mode=mode,
            **{name: getattr(question, name) for name in asked},
            **{name: sum(getattr(reply, name) for reply in replies) for name in counted},
            error=self.error,
            failures=tuple(self.failures),
            rule=self.rule,
            attempts=len(replies),
            accepted=accepted,
            correct=accepted == question.answer,
            first_accepted=first is not None,
            first_correct=first == question.answer,
            response=replies[-1].text if accepted is not None else None,
            rejected=tuple(reply.text for reply in (replies if accepted is None else replies[:-1])),
            reasoned=any(reply.reasoned for reply in replies),
            cost=sum(costs) if costs else None,
            **given,
        )


def weighed(question: Question, model: str, rule: str, weights: dict[str, float], unweighed: float = 0.0) -> Record:
    """The record of a question in exact mode, in which every spelling of its answers was weighed."""
    given = {"weights": weights, "unweighed": unweighed, "one_spelling": False}
    return Trial(question, rule, 1).record(model, "exact", **given)
