"""The formulations as Inspect AI tasks: solvers, scorer, metrics, and what its entry point finds.

inspect eval hopscope/equations -T hops=1,2,3 -T count=100 --model openai/gpt-4o

Inspect carries the calls, repeats those that fail, logs and shows; a question that it puts again goes on where it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import msgspec
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    CachePolicy,
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

from hopscope.benchmark.names import redacted
from hopscope.benchmark.points import group, summarise
from hopscope.benchmark.settings import EQUATION_HOPS, Cell, Settings
from hopscope.benchmark.trial import Record, Reply, Trial, weighed
from hopscope.errors import InputError
from hopscope.problem.text.extensions import Extensions
from hopscope.problem.text.questions import FORMULATIONS, Question
from hopscope.records import convert, plain

HOPELESS = frozenset({400, 401, 402, 403, 404, 422})
"""HTTP statuses that asking again does not change."""
RECORD = "hopscope"
"""Where a sample's metadata and score keep the record."""

Keep = Callable[[Record], None]


@dataclass
class Asking:
    """What the questions of a task have in common, and what has become of them.

    Attributes:
        questions: by sample id.
        settings: the answer rule and how to sample.
        keep: gets each record as soon as its question is settled.
        cache: use Inspect's cache, with an entry an attempt: a shared one would repeat a rejected answer for ever.
        name: the model's name in records; Inspect's own by default.
        trials: by sample id; they outlive a failed call.
        refused: the kind of a refusal that ended the run.
        problem: why the model cannot be asked like this at all.
    """

    questions: dict[str, Question]
    settings: Settings
    keep: Keep | None = None
    cache: bool = False
    name: str | None = None
    trials: dict[str, Trial] = field(default_factory=dict)
    refused: str | None = None
    problem: InputError | None = None

    def trial(self, question: Question) -> Trial:
        """The trial of a question, new or gone on with."""
        return self.trials.setdefault(question.id, Trial(question, self.settings.rule, self.settings.attempts))

    async def record(self, model: Model, messages: list[Any], question: Question) -> Record:
        """Ask or weigh. Only the kind of a failure is kept: its text comes from outside and may hold anything.

        Raises:
            Exception: the call failed; Inspect puts the question again.
        """
        trial, name, exact = self.trial(question), self.name or str(model), self.settings.mode == "exact"
        try:
            if exact and not self.refused:
                record = weighed(question, name, self.settings.rule, await _weights(model, question))
                del self.trials[question.id]
                return replace(record, failures=tuple(trial.failures))
            while not (trial.settled or self.refused):
                trial.replies.append(await self._reply(model, messages, trial))
        except LimitExceededError:
            raise
        except InputError as problem:
            self.problem, self.refused = problem, "InputError"
        except Exception as error:  # providers raise whatever they like
            status = getattr(error, "status_code", None)
            trial.failures.append(type(error).__name__ + (f" {status}" if isinstance(status, int) else ""))
            if status not in HOPELESS:
                raise
            self.refused = trial.failures[-1]
        if not trial.settled:
            trial.error = self.refused
        return trial.record(name, self.settings.mode)

    async def _reply(self, model: Model, messages: list[Any], trial: Trial) -> Reply:
        settings, attempt = self.settings, str(len(trial.replies))
        config = GenerateConfig(
            temperature=settings.temperature,
            max_tokens=settings.max_tokens,
            reasoning_effort=settings.reasoning_effort,  # type: ignore[arg-type]  # Inspect refuses what it does not know
        )
        policy = CachePolicy(expiry=None, scopes={"attempt": attempt, "id": trial.question.id})
        # Not the solver's `generate`, which would add every attempt to the conversation.
        return _read(await model.generate(messages, config=config, cache=policy if self.cache else False))


def _read(output: ModelOutput) -> Reply:
    """What came back, in our words.

    Raises:
        ValueError: nothing usable came back; the call counts as failed.
    """
    if output.error is not None or not output.choices:
        raise ValueError("the provider gave no choice")
    usage, content = output.usage, output.choices[0].message.content
    reasoned = isinstance(content, list) and any(isinstance(part, ContentReasoning) for part in content)
    tokens = usage.reasoning_tokens or 0 if usage else 0
    return Reply(
        text=redacted(output.completion),
        finished=output.stop_reason not in {"max_tokens", "model_length"},
        input_tokens=usage.input_tokens if usage else 0,
        output_tokens=usage.output_tokens if usage else 0,
        reasoning_tokens=tokens,
        reasoned=reasoned or tokens > 0,
        cost=usage.total_cost if usage else None,
    )


async def _weights(model: Model, question: Question) -> dict[str, float]:
    """Exact mode over a network, by endpoints that weigh a text they are given (vLLM's `prompt_logprobs`).

    The answer is put into the model's mouth as a finished turn, and the endpoint says how probable each of its tokens
    was, the end of the turn included: one spelling, without white space. Endpoints that only weigh what they wrote
    themselves cannot do this: they do not show the end of an answer they did not give.
    """
    before = len(await _tokens(model, question.prompt, None))
    found = {}
    for answer in question.acceptable:
        tokens = await _tokens(model, question.prompt, answer)
        found[answer] = math.exp(sum(token.logprob for token in _with_end(tokens[before:], answer)))
    return found


async def _tokens(model: Model, prompt: str, answer: str | None) -> list[Logprob]:
    """The prompt's tokens as the endpoint weighs them; with an answer, that too, as a finished turn."""
    messages: list[Any] = [ChatMessageUser(content=prompt)]
    config = GenerateConfig(prompt_logprobs=1, max_tokens=1, temperature=1.0)
    if answer is not None:
        messages.append(ChatMessageAssistant(content=answer))
        config.extra_body = {"add_generation_prompt": False}
    weighed_prompt = (await model.generate(messages, config=config)).choices[0].prompt_logprobs
    if weighed_prompt is None:
        raise InputError(
            f"{model} gives no probabilities of a prompt, so its answers cannot be weighed; exact mode needs a model "
            "folder or vLLM, or leave out --exact"
        )
    return weighed_prompt.content


def _with_end(tokens: Sequence[Logprob], answer: str) -> Sequence[Logprob]:
    """The tokens that spell the answer, and the one after them, which ends the turn.

    Raises:
        InputError: the endpoint's chat template writes something else there.
    """
    text = ""
    for number, token in enumerate(tokens):
        if text.strip() == answer:
            return tokens[: number + 1]
        text += token.token
    raise InputError(
        f"the endpoint's chat template does not end the turn after {answer!r}, so its answers cannot be weighed; "
        "leave out --exact"
    )


@solver
def resample(asking: Asking) -> Solver:
    """Ask until the answer is acceptable (Appendix A), keeping attempts and rejected texts; or weigh."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        record = await asking.record(get_model(), state.messages, asking.questions[str(state.sample_id)])
        state.metadata[RECORD] = plain(record)
        if asking.keep is not None and asking.problem is None:
            asking.keep(record)
        return state

    return solve


def _points(settings: Settings) -> Metric:
    @metric(name="points")
    def points() -> Metric:
        """Accuracy given acceptance, first-try accuracy and acceptance for each D, as `D3_accuracy`."""

        def compute(scores: list[SampleScore]) -> dict[str, float]:
            there = [score.score.metadata or {} for score in scores]
            records = [convert(one[RECORD], Record, "a score's record") for one in there if RECORD in one]
            found: dict[str, float] = {}
            for cell, those in group(records).items():
                point = summarise("", cell, those, settings)
                for name in ("accuracy", "low", "high", "first_accuracy", "first_acceptance", "mean_attempts"):
                    value = getattr(point, name)
                    found[f"D{cell.hops}_{name}"] = float("nan") if value is None else float(value)
                found[f"D{cell.hops}_never_accepted"] = point.never_accepted
            return found

        return compute

    return points()


def _answer(settings: Settings) -> Scorer:
    @scorer(metrics=[_points(settings)], name="answer")
    def answer() -> Scorer:
        """1 for the right answer, 0 for any other or none; the whole record as metadata."""

        async def score(state: TaskState, target: Target) -> Score:
            record = convert(state.metadata[RECORD], Record, "a sample's record")
            value = float(record.correct) if settings.mode == "sample" else record.rate
            return Score(value=value, answer=record.accepted, metadata={RECORD: plain(record)})

        return score

    return answer()


def build(name: str, asking: Asking) -> Task:
    """A task that puts these questions. A question whose calls fail is counted, and stops no other."""
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

    def make(hops: Any = None, count: Any = 500, cache: Any = False, **options: Any) -> Task:
        dress = {part.name for part in fields(Extensions)}
        known = dress | {part.name for part in fields(Settings)} - {"extensions"}
        if unknown := sorted(set(options) - known):
            raise InputError(f"there is no option {unknown[0]!r}; there are {', '.join(sorted(known))}")
        extensions = {key: value for key, value in options.items() if key in dress}
        given = {key: value for key, value in options.items() if key not in dress} | {"extensions": extensions}
        settings = _from_text(given, Settings)
        default = EQUATION_HOPS if name == "equations" else [form.paper_hops]
        parts = hops.split(",") if isinstance(hops, str) else hops if isinstance(hops, list | tuple) else [hops]
        wanted = default if hops is None else _from_text(list(parts), list[int])
        questions = [question for d in wanted for question in settings.questions(Cell(name, d), _from_text(count, int))]
        return build(form.task, Asking({q.id: q for q in questions}, settings, cache=_from_text(cache, bool)))

    make.__name__, make.__doc__ = form.task, (form.__doc__ or "").splitlines()[0]
    return task(name=form.task)(make)


def _from_text(value: Any, type: Any) -> Any:
    try:
        return msgspec.convert(value, type, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(f"{value!r} does not fit: {error}") from None


equations, lives_with, kingdoms, functions, relatives = map(_formulation, FORMULATIONS)
