"""One question put to one model until its text counts as an acceptable answer (Appendix A), whoever carries the texts.

The answer rules judge a whole text: an answer is never searched for within it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hopscope.benchmark.settings import Mode
from hopscope.problem.text.formulation import Form
from hopscope.problem.text.questions import Question

_SPACE = "".join(filter(str.isspace, map(chr, range(0x3001))))
"""What `str.strip` takes, white space beyond ASCII too."""
_MARKS = _SPACE + "*`\"'“”‘’"


def exact(text: str, acceptable: Sequence[str]) -> str | None:
    """The text without surrounding white space, if it is an acceptable answer (the paper's rule); else None."""
    stripped = text.strip()
    return stripped if stripped in acceptable else None


def lenient(text: str, acceptable: Sequence[str]) -> str | None:
    """As `exact`, but also with one trailing period, between quotes, asterisks or backticks, or in another case."""
    bare = text.strip(_MARKS).removesuffix(".").strip(_MARKS)
    return {answer.casefold(): answer for answer in acceptable}.get(bare.casefold())


AnswerRule = Callable[[str, Sequence[str]], str | None]
RULES: dict[str, AnswerRule] = {"exact": exact, "lenient": lenient}
"""The answer rules by name, which is part of every record."""
_AROUND = {"exact": _SPACE, "lenient": _MARKS + "."}
_FOLD: dict[str, Callable[[str], str]] = {"exact": str, "lenient": str.casefold}


def without_frame(name: str, text: str) -> str:
    """The text without what a rule may strip around an answer, and in the case in which the rule compares."""
    return _FOLD[name](text.strip(_AROUND[name]))


def hopeful(name: str, text: str, acceptable: Sequence[str]) -> bool:
    """Whether a rule may still accept `text` with more written after it: False only where it surely will not."""
    begun, whole = _FOLD[name](text.lstrip(_AROUND[name])), without_frame(name, text)
    return any(answer.startswith(begun) or answer == whole for answer in map(_FOLD[name], acceptable))


def last_line(text: str) -> str:
    """The last line that is not blank, where a model that was asked to think first puts its answer."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


@dataclass(frozen=True)
class Record:
    """What became of a question; a line of a records file.

    Attributes:
        form, lines: how it was asked; at which lines the facts are that lead to the answer.
        error: why the question was given up; it is asked again when the benchmark is resumed.
        attempts: number of replies; `rejected`: their texts except `response`, whose answer was `accepted`.
        reasoned: whether the provider reported hidden reasoning.
        weights: exact mode: the probability of each acceptable answer, whole, with its end.
        unweighed: exact mode: the probability of texts that might still have been acceptable and were not followed.
    """

    model: str
    id: str
    formulation: str
    hops: int
    form: Form
    index: int
    prompt_hash: str
    answer: str
    guess: float
    shortcut: float
    lines: tuple[int, ...]
    mode: Mode
    rule: str
    error: str | None = None
    attempts: int = 0
    accepted: str | None = None
    correct: bool = False
    response: str | None = None
    rejected: tuple[str, ...] = ()
    reasoned: bool = False
    weights: dict[str, float] | None = None
    unweighed: float = 0.0

    @property
    def p_correct(self) -> float:
        """Probability that a reply is the right answer: 0 or 1 for the first reply to a sampled question."""
        return float(self.correct and self.attempts == 1) if self.weights is None else self.weights[self.answer]

    @property
    def p_acceptable(self) -> float:
        """Probability that a reply is acceptable: 0 or 1 for the first reply to a sampled question."""
        if self.weights is None:
            return float(self.accepted is not None and self.attempts == 1)
        return min(1.0, sum(self.weights.values()))

    @property
    def share(self) -> float:
        """How right an accepted answer is: 0 or 1, or in exact mode P(correct) / P(acceptable)."""
        if self.weights is None:
            return float(self.correct)
        return self.p_correct / self.p_acceptable if self.p_acceptable > 0 else self.guess

    @property
    def likeliest(self) -> bool:
        """Exact mode: whether the right answer is more probable than any other acceptable one."""
        return self.weights is not None and all(
            self.p_correct > weight for answer, weight in self.weights.items() if answer != self.answer
        )

    def acceptance(self, attempts: int) -> float:
        """Probability of an acceptable answer within so many attempts: 0 or 1 for a sampled question."""
        if self.error is not None:
            return 0.0
        return float(self.accepted is not None) if self.weights is None else 1 - (1 - self.p_acceptable) ** attempts


Keep = Callable[[Record], None]
"""A function that takes each record as soon as its question is settled."""


class Reply(NamedTuple):
    """One reply; a text that was cut off, not `finished`, is no answer; `reasoned` if there was hidden reasoning."""

    text: str
    finished: bool = True
    reasoned: bool = False


@dataclass
class Trial:
    """The attempts at one question: an acceptable answer, `limit` replies or an `error` settles it."""

    question: Question
    rule: str
    limit: int
    replies: list[Reply] = field(default_factory=list)
    error: str | None = None

    @property
    def accepted(self) -> str | None:
        """The acceptable answer that the last reply gave, if it gave one."""
        if not self.replies or not self.replies[-1].finished:
            return None
        text = self.replies[-1].text
        text = last_line(text) if self.question.extensions.think else text
        return RULES[self.rule](text, self.question.acceptable)

    @property
    def settled(self) -> bool:
        """Whether the trial is over: an answer was accepted, an error came, or all attempts are used."""
        return self.error is not None or self.accepted is not None or len(self.replies) >= self.limit

    def record(self, model: str, mode: Mode = "sample", **exact: Any) -> Record:
        """Everything about the question and its attempts; in exact mode also `weights` and `unweighed`."""
        question, replies, accepted = self.question, self.replies, self.accepted
        same = ("id", "formulation", "hops", "index", "prompt_hash", "answer", "guess", "shortcut", "lines")
        return Record(
            model=model,
            form=question.extensions.form,
            mode=mode,
            rule=self.rule,
            **{name: getattr(question, name) for name in same},
            error=self.error,
            attempts=len(replies),
            accepted=accepted,
            correct=accepted == question.answer,
            response=replies[-1].text if accepted is not None else None,
            rejected=tuple(reply.text for reply in (replies if accepted is None else replies[:-1])),
            reasoned=any(reply.reasoned for reply in replies),
            **exact,
        )
