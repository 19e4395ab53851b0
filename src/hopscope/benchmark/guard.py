"""Between a provider and every log: no secret of the environment gets past, whoever echoed it.

Servers repeat keys in their errors ("Incorrect API key provided: ..."), and Inspect AI writes errors, their tracebacks
and replies to its logs and traces. Taking a key out of those files afterwards is too late and, with colour codes
between its letters, unsure; so it is taken out here, where the provider hands over.
"""

from __future__ import annotations

from typing import Any

from inspect_ai.model import Model, ModelCall, ModelOutput

from hopscope.benchmark.names import redacted


def guard(model: Model) -> Model:
    """Make `model` hand over nothing, reply or error, that holds a secret."""
    api: Any = model.api
    inner = api.generate

    async def generate(*arguments: Any, **named: Any) -> Any:
        try:
            return clean(await inner(*arguments, **named))
        except Exception as error:
            clean(error)
            raise

    api.generate = generate
    return model


def clean(value: Any) -> Any:
    """A reply, the record of a call, an error with those it came from, or plain values, without secrets."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, dict):
        return {clean(key): clean(part) for key, part in value.items()}
    if type(value) in {list, tuple}:
        return type(value)(map(clean, value))
    if isinstance(value, ModelOutput):
        return ModelOutput.model_validate_json(redacted(value.model_dump_json()))
    if isinstance(value, ModelCall):
        value.response = clean(value.response)
    seen: list[Any] = []
    while isinstance(value, BaseException) and value not in seen:
        seen.append(value)
        value.args = clean(value.args)
        for name, part in vars(value).items():
            setattr(value, name, clean(part) if not isinstance(part, BaseException) else part)
        value = value.__cause__ or value.__context__
    return seen[0] if seen else value
