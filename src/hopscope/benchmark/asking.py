"""The solver, scorer and metrics that carry a trial through Inspect AI."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio
from inspect_ai.model import CachePolicy, ChatMessage, ContentReasoning, GenerateConfig, Model, ModelOutput, get_model
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import LimitExceededError

from hopscope.benchmark.names import redacted
from hopscope.benchmark.settings import Settings
from hopscope.benchmark.summary import group, summarise
from hopscope.benchmark.trial import Reply, Trial
from hopscope.problem.text.questions import Question

TRIES = 5
"""Calls for one attempt before a question is given up on; Inspect itself repeats what it knows to be passing."""
HOPELESS = frozenset({400, 401, 402, 403, 404, 422})
"""HTTP statuses that asking again does not change."""
RECORD = "hopscope"
"""Where a sample's metadata and score keep the record."""

Keep = Callable[[dict[str, Any]], None]
Price = tuple[float, float]
"""US dollars for a million tokens in, and out."""


def resample(
    questions: Mapping[str, Question],
    settings: Settings,
    keep: Keep | None = None,
    price: Price | None = None,
    cache: bool = False,
    name: str | None = None,
) -> Solver:
    """Ask until the answer is acceptable (Appendix A), keeping attempts and rejected texts.

    Args:
        questions: by sample id.
        settings: the answer rule and how to sample.
        keep: gets each record as soon as its question is settled.
        price: what tokens cost, where the provider does not say.
        cache: use Inspect's cache, with an entry an attempt: a shared one would repeat a rejected answer for ever.
        name: the model's name in records; Inspect's own by default.
    """
    config = GenerateConfig(
        temperature=settings.temperature,
        max_tokens=settings.max_tokens,
        reasoning_effort=settings.reasoning_effort,  # type: ignore[arg-type]  # Inspect refuses what it does not know
    )
    hopeless: set[str] = set()

    @solver(name="resample")
    def build() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            model = get_model()
            trial = Trial(questions[str(state.sample_id)], settings.rule, settings.attempts)
            while not trial.settled:
                policy = CachePolicy(expiry=None, scopes={"attempt": str(len(trial.replies)), "id": trial.question.id})
                # Not `generate`, which would add every attempt to the conversation.
                await _attempt(model, state.messages, trial, hopeless, config, policy if cache else False, price)
            record = trial.record(name or str(model))
            state.metadata[RECORD] = record
            if keep is not None:
                keep(record)
            return state

        return solve

    return build()


async def _attempt(
    model: Model,
    messages: list[ChatMessage],
    trial: Trial,
    hopeless: set[str],
    config: GenerateConfig,
    cache: CachePolicy | bool,
    price: Price | None,
) -> None:
    """Add a reply to the trial, or give up on it.

    Only the kind of a failure is kept: its text comes from outside and may hold anything, a key too.
    """
    for number in range(TRIES):
        if hopeless:
            trial.error = min(hopeless)
            return
        try:
            trial.replies.append(_reply(await model.generate(messages, config=config, cache=cache), price))
            return
        except LimitExceededError:
            raise
        except Exception as error:  # providers raise whatever they like
            status = getattr(error, "status_code", None)
            kind = type(error).__name__ + (f" {status}" if isinstance(status, int) else "")
            trial.failures.append(kind)
            if status in HOPELESS:
                hopeless.add(kind)
            else:
                await anyio.sleep(min(0.25 * 2**number, 4.0))
    trial.error = trial.failures[-1]


def _reply(output: ModelOutput, price: Price | None) -> Reply:
    """What came back, in our words.

    Raises:
        ValueError: nothing usable came back; the call counts as failed.
    """
    if output.error is not None or not output.choices:
        raise ValueError("the provider gave no choice")
    usage, content = output.usage, output.choices[0].message.content
    reasoned = isinstance(content, list) and any(isinstance(part, ContentReasoning) for part in content)
    tokens = usage.reasoning_tokens or 0 if usage else 0
    cost = usage.total_cost if usage else None
    if cost is None and price is not None and usage is not None:
        cost = (usage.input_tokens * price[0] + usage.output_tokens * price[1]) / 1e6
    return Reply(
        text=redacted(output.completion),
        finished=output.stop_reason not in {"max_tokens", "model_length"},
        input_tokens=usage.input_tokens if usage else 0,
        output_tokens=usage.output_tokens if usage else 0,
        reasoning_tokens=tokens,
        reasoned=reasoned or tokens > 0,
        cost=cost,
    )


@metric(name="points")
def points() -> Metric:
    """Accuracy given acceptance, first-try accuracy and acceptance for each D, as `D3_accuracy`."""

    def compute(scores: list[SampleScore]) -> dict[str, float]:
        records = [s.score.metadata[RECORD] for s in scores if s.score.metadata and RECORD in s.score.metadata]
        found: dict[str, float] = {}
        for cell, those in group(records).items():
            row = summarise(those)
            for name in ("accuracy", "low", "high", "first_accuracy", "first_acceptance", "mean_attempts"):
                value = getattr(row, name)
                found[f"D{cell.hops}_{name}"] = float("nan") if value is None else float(value)
            found[f"D{cell.hops}_never_accepted"] = float(row.never_accepted)
        return found

    return compute


@scorer(metrics=[points()], name="answer")
def answer() -> Scorer:
    """1 for the right answer, 0 for any other or none; the whole record as metadata."""

    async def score(state: TaskState, target: Target) -> Score:
        record = state.metadata[RECORD]
        return Score(value=float(record["correct"]), answer=record["accepted"], metadata={RECORD: record})

    return score
