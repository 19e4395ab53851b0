"""Between a provider and every log: no secret of the environment gets past, whoever echoed it.

Servers repeat keys in their errors ("Incorrect API key provided: ..."), and Inspect AI writes errors, their tracebacks
and replies to its logs and traces. Taking a key out of those files afterwards is too late and, with colour codes
between its letters, unsure; so it is taken out here, where the provider hands over.
"""

from __future__ import annotations

import json
from typing import Any

from inspect_ai.model import Model, ModelOutput

from hopscope.benchmark.names import redacted


def guard(model: Model) -> Model:
    """Make `model` hand over nothing, reply or error, that holds a secret."""
    api: Any = model.api
    inner = api.generate

    async def generate(*arguments: Any, **named: Any) -> Any:
        try:
            result = await inner(*arguments, **named)
        except Exception as error:
            cleanse(error)
            raise
        return _clean(result)

    api.generate = generate
    return model


def cleanse(error: BaseException | None) -> None:
    """Take secrets out of an error, those it came from included."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.args = tuple(_clean_value(value) for value in error.args)
        for name, value in vars(error).items():
            setattr(error, name, _clean_value(value))
        error = error.__cause__ or error.__context__


def _clean_value(value: Any) -> Any:
    """Text, and plain structures of text, without secrets; anything else as it is."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, dict):
        return {_clean_value(key): _clean_value(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_clean_value(part) for part in value) if type(value) in {list, tuple} else value
    return value


def _clean(result: Any) -> Any:
    """A provider's result: an output or an error, alone or beside the record of the call."""
    if isinstance(result, tuple):
        output, call = result
        call.response = _clean_value(call.response)
        return _clean(output), call
    if isinstance(result, ModelOutput):
        text = result.model_dump_json()
        clean = redacted(text)
        return result if clean == text else ModelOutput.model_validate(json.loads(clean))
    if isinstance(result, BaseException):
        cleanse(result)
    return result
