"""One question put to one model until it gives an acceptable answer (Appendix A), whoever carries the texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hopscope.benchmark.answers import last_line, rule
from hopscope.problem.text.questions import Question


@dataclass(frozen=True)
class Reply:
    """What a model gave back to one attempt.

    Attributes:
        text: its text.
        finished: whether it ended by itself; a text that was cut off is no answer.
        input_tokens, output_tokens: as the provider counts them.
        reasoning_tokens: hidden reasoning that the provider reported, 0 where it reports none.
        reasoned: whether the provider reported hidden reasoning in any way.
        cost: US dollars, None where no price is known.
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
    """The attempts at one question, and their record.

    Attributes:
        question: what is asked.
        rule: name of the answer rule.
        limit: attempts after which the question counts as never accepted.
        replies: what came back, attempt by attempt.
        failures: calls that brought no reply, by kind.
        error: why the question was given up; it is asked again when the benchmark is resumed.
    """

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
        return rule(self.rule)(text, self.question.acceptable) if reply.finished else None

    def record(self, model: str) -> dict[str, Any]:
        """Everything about the attempts, as plain JSON values."""
        question, accepted = self.question, self.accepted
        rejected = self.replies[:-1] if accepted is not None else self.replies
        first = self._judge(self.replies[0]) if self.replies else None
        costs = [reply.cost for reply in self.replies if reply.cost is not None]
        return {
            **identity(question, model),
            "mode": "sample",
            "rule": self.rule,
            "attempts": len(self.replies),
            "accepted": accepted,
            "correct": accepted == question.answer,
            "first_accepted": first is not None,
            "first_correct": first == question.answer,
            "response": self.replies[-1].text if accepted is not None else None,
            "rejected": [reply.text for reply in rejected],
            "input_tokens": sum(reply.input_tokens for reply in self.replies),
            "output_tokens": sum(reply.output_tokens for reply in self.replies),
            "reasoning_tokens": sum(reply.reasoning_tokens for reply in self.replies),
            "reasoned": any(reply.reasoned for reply in self.replies),
            "cost": sum(costs) if costs else None,
            "failures": self.failures,
            "error": self.error,
        }


def identity(question: Question, model: str) -> dict[str, Any]:
    """The part of a record that says who was asked what."""
    return {
        "model": model,
        "id": question.id,
        "formulation": question.formulation,
        "hops": question.hops,
        "index": question.index,
        "prompt_hash": question.prompt_hash,
        "answer": question.answer,
        "guess": question.guess,
        "shortcut": question.shortcut,
        "lines": list(question.lines),
    }


def weighed(question: Question, model: str, weights: dict[str, float]) -> dict[str, Any]:
    """The record of a question in exact mode."""
    acceptable = sum(weights.values())
    correct = weights[question.answer]
    return {
        **identity(question, model),
        "mode": "exact",
        "weights": weights,
        "p_correct": correct,
        "p_acceptable": acceptable,
        "accuracy": correct / acceptable if acceptable > 0 else question.guess,
        "error": None,
    }
