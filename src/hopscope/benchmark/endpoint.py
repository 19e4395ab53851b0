"""Exact mode over a network: endpoints that weigh a text they are given (vLLM's `prompt_logprobs`).

The answer is put into the model's mouth as a finished turn, and the endpoint says how probable each of its tokens was,
the end of the turn included. Endpoints that only weigh what they wrote themselves cannot do this: they show the likely
first tokens, but not the end of an answer they did not give.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import anyio
from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, GenerateConfig, Logprob, Model

from hopscope.benchmark.settings import Settings
from hopscope.benchmark.trial import Trial, weighed
from hopscope.errors import InputError
from hopscope.problem.text.questions import Question

TRIES = 5
Keep = Callable[[dict[str, Any]], None]


def weigh(
    model: Model, name: str, questions: Sequence[Question], settings: Settings, keep: Keep, connections: int = 16
) -> None:
    """Weigh the acceptable answers of each question; `keep` gets each record as it comes.

    Raises:
        InputError: the endpoint gives no probabilities of a prompt, or another temperature than 1 is wanted.
    """
    if settings.temperature != 1:
        raise InputError(f"an endpoint weighs at temperature 1, got {settings.temperature}; leave it at 1")

    async def one(question: Question) -> None:
        for attempt in range(TRIES):
            try:
                keep(weighed(question, name, await _weights(model, question)))
                return
            except InputError:
                raise
            except Exception as error:  # providers raise whatever they like; its text may hold anything
                failure = type(error).__name__
                await anyio.sleep(min(0.25 * 2**attempt, 4.0))
        keep(Trial(question, settings.rule, 1, failures=[failure] * TRIES, error=failure).record(name))

    async def everything() -> None:
        queue = list(reversed(questions))

        async def worker() -> None:
            while queue:
                await one(queue.pop())

        async with anyio.create_task_group() as group:
            for _ in range(connections):
                group.start_soon(worker)
        await model.api.aclose()

    try:
        anyio.run(everything)
    except* InputError as errors:
        raise errors.exceptions[0] from None


async def _weights(model: Model, question: Question) -> dict[str, float]:
    """The probability of each acceptable answer, with its end."""
    before = len(await _tokens(model, question.prompt, None))
    found = {}
    for answer in question.acceptable:
        tokens = await _tokens(model, question.prompt, answer)
        found[answer] = math.exp(sum(token.logprob for token in _with_end(tokens[before:], answer)))
    return found


async def _tokens(model: Model, prompt: str, answer: str | None) -> list[Logprob]:
    """The prompt's tokens as the endpoint weighs them; with an answer, that too, as a finished turn."""
    messages = [ChatMessageUser(content=prompt)]
    config = GenerateConfig(prompt_logprobs=1, max_tokens=1, temperature=1.0)
    if answer is not None:
        messages.append(ChatMessageAssistant(content=answer))  # type: ignore[arg-type]
        config.extra_body = {"add_generation_prompt": False}
    output = await model.generate(messages, config=config)  # type: ignore[arg-type]
    weighed_prompt = output.choices[0].prompt_logprobs
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
