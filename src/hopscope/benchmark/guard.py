"""Between a provider and every log: no secret of the environment gets past, whoever echoed it.

Servers repeat keys in their errors ("Incorrect API key provided: ..."), and Inspect AI writes errors, their tracebacks
and replies to its logs and traces. Taking a key out of those files afterwards is too late and, with colour codes
between its letters, unsure; so it is taken out here, where the provider hands over.
"""

from __future__ import annotations

import logging
import re
import time
from dataclasses import dataclass
from typing import Any

from inspect_ai.model import Model, ModelCall, ModelOutput

from hopscope.benchmark.redaction import redacted, shown

MOST = 20_000
"""The most characters of a text from outside: an answer is a word, a chain of thought some thousand characters."""

_COLOURS = r"\[/?(?:(?:bold|italic|dim|underline|red|green|yellow|blue|magenta|cyan|white) ?)+\]"

_PATIENCE = 8.0
"""Seconds for which the calls to a model that has never replied may fail."""


def guard(model: Model, calls: Calls) -> Model:
    """Make `model` hand over nothing, reply or error, that holds a secret, and no reply that fills the disk."""
    api: Any = model.api
    inner = api.generate

    async def generate(*arguments: Any, **named: Any) -> Any:
        if calls.gone:
            raise Unreachable(calls.words)
        try:
            reply = clean(await inner(*arguments, **named))
        except Exception as error:
            clean(error)
            calls.failed(error)
            raise
        calls.succeeded = True
        return reply

    api.generate = generate
    return model


class Unreachable(Exception):
    """Every call so far has failed, for long enough: no further one is made."""


@dataclass
class Calls:
    """How the calls to a model have gone.

    Attributes:
        succeeded: whether a call brought a reply.
        words: what the provider said about the first call that failed.
        since: when that was, by `time.monotonic`.
    """

    name: str
    succeeded: bool = False
    words: str = ""
    since: float = 0.0

    def failed(self, error: Exception) -> None:
        """Note a failed call; the first one is told to whoever watches, if none has succeeded."""
        if self.words or self.succeeded:
            return
        self.words = said(error)
        self.since = time.monotonic()
        logging.getLogger("hopscope").warning(f"{self.name}: a call failed ({self.words}); trying again for a while")

    @property
    def gone(self) -> bool:
        """Whether all calls have failed for so long that no reply is to be expected."""
        return bool(self.words) and not self.succeeded and time.monotonic() - self.since > _PATIENCE


def said(error: Exception) -> str:
    """What an error says, in one line and without the colour marks that Inspect AI writes."""
    plain = re.sub(_COLOURS, "", redacted(str(error)))  # and once more: a mark may have stood within a secret
    text = redacted(plain).strip().removeprefix("ERROR: ")
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    whole = " ".join(line if line[-1] in ".:;,!?" else f"{line}." for line in lines[:-1]) + f" {lines[-1]}"
    return shown(whole.strip()[:300])


def clean(value: Any) -> Any:
    """A reply, the record of a call, an error with its causes, or plain values, without secrets."""
    if isinstance(value, str):
        return redacted(value)[: MOST + 1]
    if isinstance(value, dict):
        return {clean(key): clean(part) for key, part in value.items()}
    if type(value) in {list, tuple}:
        return type(value)(map(clean, value))
    if isinstance(value, ModelOutput):
        return ModelOutput.model_validate(clean(value.model_dump(mode="json", warnings=False)))
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
