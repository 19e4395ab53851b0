"""Any model that Inspect AI can reach: `openai/...`, `anthropic/...`, `hf/...`, `openai-api/local/...`, ...

No secret of the environment gets into a log, whoever echoed it. Servers repeat keys in their errors ("Incorrect API key
provided: ..."), and Inspect AI writes errors, their tracebacks and replies to its logs and traces. Taking a key out of
those files afterwards is too late; so it is taken out here, where the provider hands over.
"""

from __future__ import annotations

import logging
import re
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from inspect_ai import eval as evaluate
from inspect_ai.model import (
    GenerateConfig,
    Model,
    ModelCall,
    ModelCost,
    ModelInfo,
    ModelOutput,
    get_model,
    get_model_info,
    set_model_info,
)

from hopscope.benchmark.answers import Keep
from hopscope.benchmark.redaction import holds_secret, redacted, shown
from hopscope.benchmark.settings import BenchmarkSettings
from hopscope.benchmark.tasks import MOST, Asking, Unreachable, build
from hopscope.errors import InputError, MachineError
from hopscope.problem.text.questions import FORMULATIONS, Question

AGAIN = 4
"""How often Inspect asks a question again whose call failed in a way that the provider does not retry by itself."""
_COLOURS = r"\[/?(?:(?:bold|italic|dim|underline|red|green|yellow|blue|magenta|cyan|white) ?)+\]"

_PATIENCE = 8.0
"""Seconds for which the calls to a model that has never replied may fail."""


class HostedModel:
    """A model behind one of Inspect's providers.

    Args:
        name: the model's name as Inspect writes it, provider first.
        logs: the folder for Inspect's own logs; its viewer reads them (`inspect view --log-dir ...`).
        base_url: the address of the endpoint, where the provider takes one.
        arguments: the provider's own arguments (Inspect's `-M`).
        connections: how many calls are made at a time.
        timeout: seconds of silence after which a call is made again.
        price: US dollars for a million tokens in and out, where Inspect does not know the price.
        display: Inspect's display: rich, plain, none, ...

    Raises:
        InputError: Inspect knows no such model or key, or would write a secret in an argument or address to its logs.
    """

    def __init__(
        self,
        name: str,
        logs: Path,
        base_url: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        connections: int = 16,
        timeout: int = 60,
        price: tuple[float, float] | None = None,
        display: str = "none",
    ) -> None:
        secret = {key for key, value in (arguments or {}).items() if holds_secret({key: value})}
        for key in secret:
            if key != "api_key" and not key.startswith("aws_"):  # which Inspect leaves out
                raise InputError(
                    f"the argument {redacted(key)} holds a secret, which Inspect would write to its logs; set the "
                    "provider's variable instead"
                )
        public = {key: str(value) for key, value in (arguments or {}).items() if key not in secret}
        self.name, self.identity = name, {"arguments": public, "base_url": _public(base_url)}
        self._logs, self._display = logs, display
        self._calls = Calls(redacted(name))
        config = GenerateConfig(max_connections=connections, attempt_timeout=timeout, max_retries=6)
        try:
            self._model = guard(
                get_model(name, config=config, base_url=base_url, memoize=False, **dict(arguments or {})), self._calls
            )
        except Exception as error:  # whatever a provider raises while it starts
            raise InputError(f"the model {name} cannot be opened: {said(error)}") from None
        _public(self._model.api.base_url)  # the environment may have given it
        if price is not None:
            known = get_model_info(str(self._model)) or ModelInfo()
            cost = ModelCost(input=price[0], output=price[1], input_cache_write=price[0], input_cache_read=price[0])
            set_model_info(str(self._model), known.model_copy(update={"cost": cost}))

    def ask(self, questions: Sequence[Question], settings: BenchmarkSettings, keep: Keep) -> None:
        """Ask each question until it is settled, or weigh its answers; `keep` gets each record as it comes.

        Raises:
            InputError: the model cannot be asked in this way, or its provider refuses.
            MachineError: the model never replied; every question has a record that says so.
            KeyboardInterrupt: the run was interrupted; what was settled is kept.
        """
        askings = {
            form: Asking({q.id: q for q in questions if q.formulation == form}, settings, keep, name=self.name)
            for form in dict.fromkeys(question.formulation for question in questions)
        }
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Pydantic serializer warnings")  # of replies that bend the form
            logs = evaluate(
                [build(FORMULATIONS[form].task, asking) for form, asking in askings.items()],
                model=self._model,
                log_dir=str(self._logs),
                display=self._display,  # type: ignore[arg-type]  # Inspect refuses what it does not know
                max_tasks=len(askings),
                retry_on_error=AGAIN,
                fail_on_error=False,
                log_realtime=False,
            )
        if any(log.status == "cancelled" for log in logs):
            raise KeyboardInterrupt
        for asking in askings.values():
            if asking.problem is not None:
                raise asking.problem
            for trial in asking.trials.values():
                if trial.failures:
                    trial.error = trial.failures[-1]
                    keep(trial.record(self.name, settings.mode))
        if self._calls.succeeded or not self._calls.words:
            return
        refused = next((asking.refused for asking in askings.values() if asking.refused), "")
        if refused and not refused.startswith("Unreachable"):
            raise InputError(f"{self._calls.name} refuses every question: {self._calls.words}; mend that and ask again")
        raise MachineError(f"{self._calls.name} never replied: {self._calls.words}")

    def weigh(self, questions: Sequence[Question], settings: BenchmarkSettings, keep: Keep) -> None:
        """Exact mode, with an endpoint that weighs a text that it is given."""
        if settings.temperature != 1:
            raise InputError(f"an endpoint weighs at temperature 1, got {settings.temperature}; leave it at 1")
        self.ask(questions, settings, keep)


def _public(address: str | None) -> str | None:
    """An endpoint's address, without what a query adds to it; a secret in it is refused."""
    if address is None:
        return None
    asked = dict(parse_qsl(address.partition("?")[2], keep_blank_values=True))
    if "@" in address or holds_secret(address) or holds_secret(asked):
        raise InputError(
            "base_url holds a name, password or key, which Inspect would write to its logs; leave it out of the "
            "address and set the provider's variable instead"
        )
    return address.partition("?")[0]


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


@dataclass
class Calls:
    """How the calls to a model have gone: `words` is what the provider said about the first that failed, at `since`."""

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
