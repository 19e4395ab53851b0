"""The formulations as Inspect AI tasks: solvers, scorer, metrics, and what its entry point finds.

inspect eval hopscope/equations -T hops=1,2,3 -T count=100 --model openai/gpt-4o

Inspect makes the calls, repeats those that fail, logs and displays; a question that it puts again goes on where it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import msgspec
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageUser,
    ContentReasoning,
    GenerateConfig,
    Logprob,
    Model,
    ModelOutput,
    get_model,
)
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import LimitExceededError

from hopscope.benchmark.answers import Keep, Record, Reply, Trial
from hopscope.benchmark.points import group, summarise
from hopscope.benchmark.redaction import redacted
from hopscope.benchmark.settings import EQUATION_HOPS, BenchmarkSettings, Cell
from hopscope.errors import InputError
from hopscope.problem.text.formulation import Extensions
from hopscope.problem.text.questions import FORMULATIONS, Question
from hopscope.records import convert, plain

MOST = 20_000
"""The most characters of a text from outside: an answer is a word, a chain of thought some thousand characters."""
HOPELESS = frozenset({400, 401, 402, 403, 404, 422})
"""HTTP statuses that asking again does not change."""
CUT_OFF = frozenset({"max_tokens", "model_length", "content_filter"})
"""Reasons for which a reply ends before its end."""
FRAME = 32
"""The most tokens around a reply's text, such as the marks of a turn, that a provider may count with it."""
RECORD = "hopscope"
"""The name under which a sample's metadata and score keep the record."""


class Unreachable(Exception):
    """Every call so far has failed, for long enough: no further one is made."""


@dataclass
class Asking:
    """The questions of a task by sample id, and what has become of them; `keep` gets each record as it is settled.

    Attributes:
        name: the model's name in records; Inspect's own by default.
        trials: the trials under way, by sample id and epoch; they outlive a failed call.
        refused: the kind of a refusal that ended the run.
        problem: why the model cannot be asked in this way at all.
    """

    questions: dict[str, Question]
    settings: BenchmarkSettings
    keep: Keep = lambda record: None
    name: str | None = None
    trials: dict[tuple[str, int], Trial] = field(default_factory=dict)
    refused: str | None = None
    problem: InputError | None = None

    async def record(self, model: Model, state: TaskState) -> Record:
        """Ask or weigh. Of a failure only the kind is kept: its text comes from outside and may hold anything.

        Where a call failed that may succeed later its error is raised, and Inspect puts the question again.
        """
        key = str(state.sample_id), state.epoch
        question, found = self.questions[key[0]], dict[str, Any]()
        trial = self.trials.setdefault(key, Trial(question, self.settings.rule, self.settings.attempts))
        try:
            if self.settings.mode == "exact" and not self.refused:
                found |= {"weights": await _weights(model, question), "one_spelling": True}
            while not (found or trial.settled or self.refused):
                trial.replies.append(await self._reply(model, state.messages))
        except LimitExceededError:
            raise
        except InputError as problem:
            self.problem, self.refused = problem, "InputError"
        except Exception as error:  # providers raise whatever they like
            status = getattr(error, "status_code", None)
            trial.failures.append(type(error).__name__ + (f" {status}" if isinstance(status, int) else ""))
            if status not in HOPELESS and not isinstance(error, Unreachable):
                raise
            self.refused = trial.failures[-1]
        if not found and not trial.settled:
            trial.error = self.refused
        del self.trials[key]
        return trial.record(self.name or str(model), self.settings.mode, **found)

    async def _reply(self, model: Model, messages: list[Any]) -> Reply:
        config = GenerateConfig(
            temperature=self.settings.temperature,
            max_tokens=self.settings.longest,
            reasoning_effort=self.settings.reasoning_effort,  # type: ignore[arg-type]  # Inspect refuses what it does not know
        )
        # Not the solver's `generate`, which would add every attempt to the conversation; nor a cache, which would
        # repeat a rejected answer for ever.
        return _read(await model.generate(messages, config=config, cache=False))


def _read(output: ModelOutput) -> Reply:
    """What came back, as a reply; an error, of a call that failed, where that is nothing usable."""
    if output.error is not None or not output.choices:
        raise ValueError("the provider gave no choice")
    usage, content = output.usage, output.choices[0].message.content
    reasoned = isinstance(content, list) and any(isinstance(part, ContentReasoning) for part in content)
    tokens = max(0, usage.reasoning_tokens or 0) if usage else 0
    written = max(0, usage.output_tokens) if usage else 0
    return Reply(
        text=redacted(output.completion[:MOST]),
        finished=output.stop_reason not in CUT_OFF and len(output.completion) <= MOST,
        input_tokens=max(0, usage.input_tokens) if usage else 0,
        output_tokens=written,
        reasoning_tokens=tokens,
        # A token is a byte at least: what is counted beyond the text was written and not shown.
        reasoned=reasoned or tokens > 0 or written > len(output.completion.encode()) + FRAME,
        cost=usage.total_cost if usage else None,
    )


async def _weights(model: Model, question: Question) -> dict[str, float]:
    """Exact mode over a network, by endpoints that weigh a text they are given (vLLM's `prompt_logprobs`).

    The answer is put into the model's mouth as a finished turn, and the endpoint says how probable each of its tokens
    was, the end of the turn included: one spelling, with no white space but the template's own. Endpoints that only
    weigh what they wrote themselves cannot do this: they do not show the end of an answer they did not give.
    """
    before = len(await _tokens(model, question.prompt))
    found = {}
    for answer in question.acceptable:
        text, log, ended = "", 0.0, False
        for token in (await _tokens(model, question.prompt, answer))[before:]:
            ended, log = text.strip() == answer, log + token.logprob
            if ended and not token.token.isspace():  # a template may break the line before the mark that ends the turn
                break
            text += token.token
        if not ended:
            raise InputError(
                f"the endpoint's chat template does not end the turn after {answer!r}, so its answers cannot be "
                "weighed; leave out --exact"
            )
        found[answer] = math.exp(log)
    return found


async def _tokens(model: Model, prompt: str, answer: str | None = None) -> list[Logprob]:
    """The prompt's tokens as the endpoint weighs them; with an answer, that too, as a finished turn."""
    messages: list[Any] = [ChatMessageUser(content=prompt)]
    config = GenerateConfig(prompt_logprobs=1, max_tokens=1, temperature=1.0)
    if answer is not None:
        messages.append(ChatMessageAssistant(content=answer))
        config.extra_body = {"add_generation_prompt": False}
    given = (await model.generate(messages, config=config)).choices[0].prompt_logprobs
    if given is None:
        raise InputError(
            f"{model} gives no probabilities of a prompt, so its answers cannot be weighed; exact mode needs a model "
            "folder or vLLM, or leave out --exact"
        )
    return given.content


@solver
def resample(asking: Asking) -> Solver:
    """Ask until the answer is acceptable (Appendix A), keeping attempts and rejected texts; or weigh."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        record = await asking.record(get_model(), state)
        state.metadata[RECORD] = plain(record)
        if asking.problem is None:
            asking.keep(record)
        return state

    return solve


def _answer(settings: BenchmarkSettings) -> Scorer:
    @metric(name="points")
    def points() -> Metric:
        """Accuracy given acceptance, first-try accuracy and acceptance for each D, as `D3_accuracy`."""

        def compute(scores: list[SampleScore]) -> dict[str, float]:
            there = [score.score.metadata for score in scores if score.score.metadata]
            records = [convert(one[RECORD], Record, "a score's record") for one in there]
            each = [(cell, summarise("", cell, those, settings)) for cell, those in group(records).items()]
            shown = ("accuracy", "low", "high", "first_accuracy", "first_acceptance", "mean_attempts", "never_accepted")
            values = {f"D{cell.hops}_{name}": getattr(point, name) for cell, point in each for name in shown}
            return {name: math.nan if value is None else value for name, value in values.items()}

        return compute

    @scorer(metrics=[points()], name="answer")
    def answer() -> Scorer:
        """1 for the right answer, 0 for any other or none, in exact mode its probability; the record as metadata."""

        async def score(state: TaskState, target: Target) -> Score:
            record = convert(state.metadata[RECORD], Record, "a sample's record")
            return Score(value=record.rate, answer=record.accepted, metadata={RECORD: state.metadata[RECORD]})

        return score

    return answer()


def build(name: str, asking: Asking) -> Task:
    """A task that puts these questions. A question whose calls fail is counted, and stops no other question."""
    questions = asking.questions.values()
    samples = [Sample(input=q.prompt, target=q.answer, id=q.id, metadata={"hops": q.hops}) for q in questions]
    return Task(
        name=name,
        dataset=MemoryDataset(samples, name=name),
        solver=resample(asking),
        scorer=_answer(asking.settings),
        metadata={"settings": plain(asking.settings)},
    )


def _formulation(name: str) -> Callable[..., Task]:
    """The task of a formulation, for `inspect eval`; arguments may arrive as text."""
    form = FORMULATIONS[name]
    usual = EQUATION_HOPS if name == "equations" else (form.paper_hops,)

    def make(hops: Any = usual, count: Any = 500, **options: Any) -> Task:
        dress = {part.name: options.pop(part.name) for part in fields(Extensions) if part.name in options}
        if unknown := set(options) - {part.name for part in fields(BenchmarkSettings)}:
            raise InputError(f"there is no option {min(unknown)!r}")
        settings = _from_text(options | {"extensions": dress}, BenchmarkSettings)
        depths = _from_text(hops.split(",") if isinstance(hops, str) else hops, list[int] | int)
        cells = [Cell(name, d) for d in ([depths] if isinstance(depths, int) else depths)]
        questions = [question for cell in cells for question in settings.questions(cell, _from_text(count, int))]
        return build(form.task, Asking({question.id: question for question in questions}, settings))

    make.__name__, make.__doc__ = form.task, form.__doc__
    return task(name=form.task)(make)


def _from_text(value: Any, type: Any) -> Any:
    try:
        return msgspec.convert(value, type, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(f"{value!r} does not fit: {error}") from None


TASKS = {form.task: _formulation(name) for name, form in FORMULATIONS.items()}
"""The tasks by the name that follows `hopscope/`."""
