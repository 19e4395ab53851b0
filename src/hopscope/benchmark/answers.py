"""Ask a model a question until a reply is an acceptable answer (Appendix A); used by hosted and local models.

The answer rules judge the whole text of a reply: they do not search for an answer within the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hopscope.benchmark.settings import Mode
from hopscope.problem.text.formulation import Form
from hopscope.problem.text.questions import Question

_SPACE = "".join(filter(str.isspace, map(chr, range(0x3001))))
"""The characters that `str.strip` removes, including white space beyond ASCII."""
_MARKS = _SPACE + "*`\"'“”‘’"


def exact(text: str, acceptable: Sequence[str]) -> str | None:
    """Return the text without surrounding white space if that is an acceptable answer (the paper's rule), else None."""
    stripped = text.strip()
    return stripped if stripped in acceptable else None


def lenient(text: str, acceptable: Sequence[str]) -> str | None:
    """Like `exact`, but ignore case, a trailing period, and quotes, asterisks or backticks around the answer."""
    bare = text.strip(_MARKS).removesuffix(".").strip(_MARKS)
    return {answer.casefold(): answer for answer in acceptable}.get(bare.casefold())


AnswerRule = Callable[[str, Sequence[str]], str | None]
RULES: dict[str, AnswerRule] = {"exact": exact, "lenient": lenient}
"""The answer rules by name; the name is part of every record."""
_AROUND = {"exact": _SPACE, "lenient": _MARKS + "."}
_FOLD: dict[str, Callable[[str], str]] = {"exact": str, "lenient": str.casefold}


def without_frame(name: str, text: str) -> str:
    """Return the text as a rule compares it: without ignored characters around it, case-folded if case is ignored."""
    return _FOLD[name](text.strip(_AROUND[name]))


def hopeful(name: str, text: str, acceptable: Sequence[str]) -> bool:
    """Whether a rule may accept a longer text that begins with `text`; False only if that is impossible."""
    begun, whole = _FOLD[name](text.lstrip(_AROUND[name])), without_frame(name, text)
    return any(answer.startswith(begun) or answer == whole for answer in map(_FOLD[name], acceptable))


def last_line(text: str) -> str:
    """Return the last line that is not blank, which is the answer of a model that was asked to think first."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


@dataclass(frozen=True)
class Record:
    """The result of one question; a line of a records file.

    Attributes:
        form: how the question was asked.
        lines: the numbers of the lines with the facts that lead to the answer.
        error: why the question was given up, or None; it is asked again when the benchmark is resumed.
        attempts: number of replies.
        accepted: the acceptable answer in the last reply; None if no reply was accepted.
        response: the text of the accepted reply.
        rejected: the texts of all other replies.
        reasoned: whether the provider reported hidden reasoning.
        weights: in exact mode, the probability that a reply is this answer and then ends, for each acceptable answer.
        unweighed: in exact mode, the probability of texts that could still become acceptable but were not followed.
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
        """Probability that a reply is the right answer; for a sampled question 0 or 1, according to the first reply."""
        return float(self.correct and self.attempts == 1) if self.weights is None else self.weights[self.answer]

    @property
    def p_acceptable(self) -> float:
        """Probability that a reply is acceptable; for a sampled question 0 or 1, according to the first reply."""
        if self.weights is None:
            return float(self.accepted is not None and self.attempts == 1)
        return min(1.0, sum(self.weights.values()))

    @property
    def share(self) -> float:
        """Probability that an accepted answer is right: 0 or 1, or in exact mode P(correct) / P(acceptable)."""
        if self.weights is None:
            return float(self.correct)
        return min(1.0, self.p_correct / self.p_acceptable) if self.p_acceptable > 0 else self.guess

    @property
    def likeliest(self) -> bool:
        """Whether, in exact mode, the right answer is more probable than any other acceptable answer."""
        return self.weights is not None and all(
            self.p_correct > weight for answer, weight in self.weights.items() if answer != self.answer
        )

    def acceptance(self, attempts: int) -> float:
        """Return the probability of an acceptable answer within `attempts` attempts: 0 or 1 for a sampled question."""
        if self.error is not None:
            return 0.0
        return float(self.accepted is not None) if self.weights is None else 1 - (1 - self.p_acceptable) ** attempts


Keep = Callable[[Record], None]
"""A function that is called with each record as soon as its question is settled."""


class Reply(NamedTuple):
    """A reply: its text, whether it finished (else it is no answer), and whether there was hidden reasoning."""

    text: str
    finished: bool = True
    reasoned: bool = False


@dataclass
class Trial:
    """The attempts at one question, which is settled by an acceptable answer, after `limit` replies or by an error."""

    question: Question
    rule: str
    limit: int
    replies: list[Reply] = field(default_factory=list)
    error: str | None = None

    @property
    def accepted(self) -> str | None:
        """The acceptable answer in the last reply; None if there is none."""
        if not self.replies or not self.replies[-1].finished:
            return None
        text = self.replies[-1].text
        text = last_line(text) if self.question.extensions.think else text
        return RULES[self.rule](text, self.question.acceptable)

    @property
    def settled(self) -> bool:
        """Whether the trial is over: an answer was accepted, an error occurred, or all attempts are used."""
        return self.error is not None or self.accepted is not None or len(self.replies) >= self.limit

    def record(self, model: str, mode: Mode = "sample", **exact: Any) -> Record:
        """Return the record of the question and its attempts; exact mode also passes `weights` and `unweighed`."""
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
