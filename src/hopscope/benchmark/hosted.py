"""Ask any model that Inspect AI can reach (`openai/...`, `openai-api/local/...`); the formulations as Inspect tasks.

    inspect eval hopscope/equations -T hops=1,2,3 -T count=100 --model openai/gpt-4o

Inspect makes and repeats the calls, and handles limits, logs, costs and the display. hopscope draws the questions and
asks until an answer is acceptable. Servers repeat keys in their errors ("Incorrect API key provided: ..."), and Inspect
writes errors and replies to its logs, so keys are removed as soon as a provider's call returns. Each task is a separate
function, since Inspect finds the tasks of a file by reading its text.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from inspect_ai import Task, task, task_with
from inspect_ai import eval as evaluate
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ContentReasoning, GenerateConfig, Model, ModelCall, ModelOutput, get_model
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver

from hopscope.benchmark.answers import Keep, Record, Reply, Trial
from hopscope.benchmark.points import group, summarise
from hopscope.benchmark.redaction import all_redacted, holds_secret, redacted, shown
from hopscope.benchmark.settings import EQUATION_HOPS, BenchmarkSettings, Cell
from hopscope.errors import InputError, MachineError
from hopscope.problem.text.formulation import Extensions
from hopscope.problem.text.questions import FORMULATIONS, Question
from hopscope.records import convert, plain

VERSION = "1-A"  # of the tasks: a new number if scores are no longer comparable, a new letter if old commands fail
MOST = 20_000  # the largest number of characters in a text from outside; a chain of thought has a few thousand
AGAIN = 4  # times that Inspect repeats a question after its call failed for good
RETRIES = 6  # times that a provider repeats a call after a temporary failure
FAILED = 8  # questions that may fail before the run ends; the same command continues the run later
CUT_OFF = frozenset({"max_tokens", "model_length", "content_filter"})  # reasons for which a reply is cut off
FRAME = 32  # tokens that a provider may count in addition to a reply's text, such as the marks of a turn
RECORD = "hopscope"  # the name under which a sample's metadata and score keep the record


class HostedModel:
    """A model behind one of Inspect's providers.

    Args:
        name: the model's name as Inspect writes it, provider first.
        logs: the folder for Inspect's own logs, which its viewer reads (`inspect view --log-dir ...`).
        base_url: the address of the endpoint, for providers that take one.
        arguments: the provider's own arguments (Inspect's `-M`).
        connections: number of calls at a time.
        timeout: seconds of silence after which a call is repeated.
        display: Inspect's display: rich, plain, none, ...

    Raises:
        InputError: Inspect finds no such model or no key, or an argument or the address holds a secret.
    """

    def __init__(
        self,
        name: str,
        logs: Path,
        base_url: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        connections: int = 16,
        timeout: int = 60,
        display: str = "none",
    ) -> None:
        arguments = arguments or {}
        public = {key: str(value) for key, value in arguments.items() if not holds_secret({key: value})}
        if secrets := arguments.keys() - public:
            raise InputError(
                f"the argument {redacted(min(secrets))} holds a secret, which an error or a log could repeat; set the "
                "provider's variable instead"
            )
        self.name, self.identity = name, {"arguments": public, "base_url": _public(base_url)}
        self._logs, self._display = logs, display
        config = GenerateConfig(max_connections=connections, attempt_timeout=timeout, max_retries=RETRIES)
        try:
            model = get_model(name, config=config, base_url=base_url, memoize=False, **arguments)
        except Exception as error:  # a provider may raise any error while it starts
            raise InputError(f"the model {name} cannot be opened: {said(error)}") from None
        self._model = guard(model)
        _public(model.api.base_url)  # the environment may have given it

    def ask(self, questions: Sequence[Question], settings: BenchmarkSettings, keep: Keep) -> None:
        """Ask each question until it is settled; `keep` gets each record as soon as it is made.

        Raises:
            InputError: the mode is exact, since endpoints do not return the probability of answers not given.
            MachineError: calls kept failing; settled questions are kept.
            KeyboardInterrupt: the run was interrupted; settled questions are kept.
        """
        if settings.mode == "exact":
            raise InputError(f"{self.name} does not say how likely each answer is; leave out exact mode")
        by_id = {question.id: question for question in questions}
        tasks = [
            task_with(build(part, settings, keep, self.name), name=form.task)
            for form in FORMULATIONS.values()
            if (part := [question for question in questions if question.formulation == form.name])
        ]
        run: dict[str, Any] = {"log_dir": str(self._logs), "log_realtime": False, "display": self._display}
        run |= {"max_tasks": len(tasks), "retry_on_error": AGAIN, "fail_on_error": FAILED}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Pydantic serializer warnings")  # of odd replies
            logs = evaluate(tasks, model=self._model, **run)
        for log in logs:
            if log.status == "cancelled":
                raise KeyboardInterrupt
            if log.status == "error":
                words = said(Exception(log.error.message if log.error else "no reason given"))
                raise MachineError(f"{shown(redacted(self.name))}: calls kept failing: {words}")
            for sample in log.samples or ():
                if sample.error is not None:
                    why = said(Exception(sample.error.message))
                    trial = Trial(by_id[str(sample.id)], settings.rule, settings.attempts, error=why)
                    keep(trial.record(self.name, settings.mode))


def _public(address: str | None) -> str | None:
    """Return an endpoint's address without its query; an address with a secret is refused."""
    if address is None:
        return None
    bare, _, query = address.partition("?")
    if "@" in address or holds_secret(address) or holds_secret(dict(parse_qsl(query, keep_blank_values=True))):
        raise InputError(
            "base_url holds a name, password or key, which Inspect would write to its logs; leave it out of the "
            "address and set the provider's variable instead"
        )
    return bare


def guard(model: Model) -> Model:
    """Make `model` remove secrets from its replies and errors, and cut replies that would fill the disk."""
    api: Any = model.api
    inner = api.generate

    async def generate(*arguments: Any, **named: Any) -> Any:
        try:
            return clean(await inner(*arguments, **named))
        except Exception as error:
            if body := getattr(error, "body", None):  # what the server said, which its client may leave out
                error.args = (*error.args, body)
            clean(error)
            raise

    api.generate = generate
    return model


def said(error: Exception) -> str:
    """Return the message of an error in one line, without secrets and Inspect's colour marks."""
    text = redacted(re.sub(r"\[/?(bold|italic|red|blue|green|yellow)[a-z ]*\]", "", str(error))).strip()
    text = re.split(r"(?:\n|\\+n)}(?:\n|\\+n){2}", text)[-1]  # what Inspect writes before this is the request
    lines = filter(None, map(str.strip, text.removeprefix("ERROR: ").splitlines()))
    return shown(": ".join(lines)[:300]) or type(error).__name__


def clean(value: Any) -> Any:
    """Return a reply, the record of a call, an error with its causes, or a tuple of these, without secrets."""
    if isinstance(value, tuple):
        return tuple(map(clean, value))
    if isinstance(value, ModelOutput):
        return ModelOutput.model_validate(all_redacted(value.model_dump(mode="json", warnings=False), MOST + 1))
    if isinstance(value, ModelCall):
        value.response = all_redacted(value.response, MOST + 1)
    error, seen = value, list[Any]()
    while isinstance(error, BaseException) and error not in seen:
        seen.append(error)
        error.args = tuple(all_redacted(error.args, MOST + 1))
        vars(error).update(all_redacted(vars(error), MOST + 1))
        error = error.__cause__ or error.__context__
    return value


def _read(output: ModelOutput) -> Reply:
    """Return the reply in the output of a call; a call that gave nothing usable raises a `ValueError`."""
    if output.error is not None or not output.choices:
        raise ValueError("the provider gave no choice")
    usage, content, text = output.usage, output.choices[0].message.content, output.completion
    reasoned = isinstance(content, list) and any(isinstance(part, ContentReasoning) for part in content)
    if usage:  # a token has at least one byte, so tokens beyond the text were written but not shown
        reasoned |= (usage.reasoning_tokens or 0) > 0 or usage.output_tokens > len(text.encode()) + FRAME
    return Reply(redacted(text[:MOST]), output.stop_reason not in CUT_OFF and len(text) <= MOST, reasoned)


def _resample(questions: Sequence[Question], settings: BenchmarkSettings, keep: Keep, name: str | None) -> Solver:
    """Return a solver that asks until the answer is acceptable (Appendix A) and keeps attempts and rejected texts.

    If a call fails, its error is raised. Inspect then asks the question again, and the earlier replies still count.
    """
    by_id = {question.id: question for question in questions}
    trials: dict[tuple[str, int], Trial] = {}
    effort: Any = settings.reasoning_effort  # Inspect refuses what it does not know
    config = GenerateConfig(temperature=settings.temperature, max_tokens=settings.longest, reasoning_effort=effort)

    @solver
    def resample() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            key, model = (str(state.sample_id), state.epoch), get_model()
            trial = trials.setdefault(key, Trial(by_id[key[0]], settings.rule, settings.attempts))
            while not trial.settled:
                # Not the solver's `generate`, which would add every attempt to the conversation; nor a cache, which
                # would repeat a rejected answer for ever.
                trial.replies.append(_read(await model.generate(state.messages, config=config, cache=False)))
            record = trials.pop(key).record(name or str(model))
            state.metadata[RECORD] = plain(record)
            keep(record)
            return state

        return solve

    return resample()


@metric
def points() -> Metric:
    """Accuracy given acceptance, first-try accuracy and acceptance for each D, as `D3_accuracy`."""

    def compute(scores: list[SampleScore]) -> dict[str, float]:
        records = [convert(s.score.metadata[RECORD], Record, "a score's record") for s in scores if s.score.metadata]
        each = [(cell, summarise("", cell, those, BenchmarkSettings())) for cell, those in group(records).items()]
        names = ("accuracy", "low", "high", "first_accuracy", "first_acceptance", "mean_attempts", "never_accepted")
        values = {f"D{cell.hops}_{name}": getattr(point, name) for cell, point in each for name in names}
        return {name: math.nan if value is None else value for name, value in values.items()}

    return compute


@scorer(metrics=[points()])
def answer() -> Scorer:
    """Score 1 for the right answer and 0 for any other or no answer, with the record as metadata."""

    async def score(state: TaskState, target: Target) -> Score:
        record = convert(state.metadata[RECORD], Record, "a sample's record")
        return Score(value=record.share, answer=record.accepted, metadata={RECORD: state.metadata[RECORD]})

    return score


def build(
    questions: Sequence[Question], settings: BenchmarkSettings, keep: Keep = lambda _: None, name: str | None = None
) -> Task:
    """Return a task that asks these questions; `keep` gets each record, under the model's `name` or Inspect's name."""
    samples = [Sample(input=q.prompt, target=q.answer, id=q.id, metadata={"hops": q.hops}) for q in questions]
    dataset, solver = MemoryDataset(samples, "hopscope"), _resample(questions, settings, keep, name)
    return Task(dataset, solver=solver, scorer=answer(), version=VERSION, metadata={"settings": plain(settings)})


def _task(name: str, hops: Any, count: Any, options: dict[str, Any]) -> Task:
    """Return the task of a formulation; arguments may be given as text."""
    extensions = {part.name: options.pop(part.name) for part in fields(Extensions) if part.name in options}
    if unknown := set(options) - {part.name for part in fields(BenchmarkSettings)}:
        raise InputError(f"there is no option {min(unknown)!r}")
    hops = hops.split(",") if isinstance(hops, str) else hops if isinstance(hops, list | tuple) else [hops]
    given = (hops, count, options | {"extensions": extensions})
    try:
        depths, number, settings = msgspec.convert(given, tuple[list[int], int, BenchmarkSettings], strict=False)
    except msgspec.ValidationError as error:
        raise InputError(f"{given} does not fit: {error}") from None
    if settings.mode == "exact":
        raise InputError("Inspect's models do not say how likely each answer is; leave out mode")
    return build([q for depth in depths for q in settings.questions(Cell(name, depth), number)], settings)


@task
def equations(hops: Any = EQUATION_HOPS, count: Any = 500, **options: Any) -> Task:
    """Ask for the value of the symbol at the end of a chain of equations: `a = 3`, `b = a`, ..."""
    return _task("equations", hops, count, options)


@task
def lives_with(hops: Any = FORMULATIONS["lives-with"].paper_hops, count: Any = 500, **options: Any) -> Task:
    """Ask in which city a person lives, given who lives with whom and who lives in which city."""
    return _task("lives-with", hops, count, options)


@task
def kingdoms(hops: Any = FORMULATIONS["kingdoms"].paper_hops, count: Any = 500, **options: Any) -> Task:
    """Ask who has an illness, given homes, beliefs, foods, what foods contain, and which illness that causes."""
    return _task("kingdoms", hops, count, options)


@task
def functions(hops: Any = FORMULATIONS["functions"].paper_hops, count: Any = 500, **options: Any) -> Task:
    """Ask for the value of a function, given tables of functions, and other names of functions and arguments."""
    return _task("functions", hops, count, options)


@task
def relatives(hops: Any = FORMULATIONS["relatives"].paper_hops, count: Any = 500, **options: Any) -> Task:
    """Ask in which country a person lives, given jobs, the relative that each job lives with, families and homes."""
    return _task("relatives", hops, count, options)
