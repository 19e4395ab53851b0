"""Any model that Inspect AI can reach: `openai/...`, `anthropic/...`, `hf/...`, `openai-api/local/...`, ..."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from hopscope.benchmark.redaction import holds_secret, redacted
from hopscope.benchmark.settings import BenchmarkSettings
from hopscope.benchmark.trial import Keep
from hopscope.errors import InputError, MachineError, needs_extra
from hopscope.problem.text.questions import FORMULATIONS, Question

if TYPE_CHECKING:
    from hopscope.benchmark.tasks import Asking

AGAIN = 4
"""How often Inspect asks a question again whose call failed in a way that the provider does not retry by itself."""


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
        InputError: Inspect is not installed, or knows no such model or key; or an argument or an address holds a secret
            that Inspect would write to its logs.
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
        try:
            from inspect_ai.model import GenerateConfig, ModelCost, ModelInfo, get_model, get_model_info, set_model_info

            from hopscope.benchmark.guard import Calls, guard, said
        except ImportError:
            raise needs_extra("a model behind a provider", "inspect-ai", "llm") from None
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
        from inspect_ai import eval as evaluate

        from hopscope.benchmark.tasks import Asking, build

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
        self._see(askings.values())

    def _see(self, askings: Iterable[Asking]) -> None:
        """Check that any reply came back at all."""
        if self._calls.succeeded or not self._calls.words:
            return
        refused = next((asking.refused for asking in askings if asking.refused), "")
        if refused and not refused.startswith("Unreachable"):
            raise InputError(f"{self._calls.name} refuses every question: {self._calls.words}; mend that and ask again")
        raise MachineError(f"{self._calls.name} never replied: {self._calls.words}")

    def weigh(self, questions: Sequence[Question], settings: BenchmarkSettings, keep: Keep) -> None:
        """Exact mode, with an endpoint that weighs a text that it is given.

        Raises:
            InputError: the endpoint does not, or another temperature than 1 is wanted.
        """
        if settings.temperature != 1:
            raise InputError(f"an endpoint weighs at temperature 1, got {settings.temperature}; leave it at 1")
        self.ask(questions, settings, keep)


def _public(address: str | None) -> str | None:
    """An endpoint's address, without what a query adds to it.

    Raises:
        InputError: it holds a secret.
    """
    if address is None:
        return None
    asked = dict(parse_qsl(address.partition("?")[2], keep_blank_values=True))
    if "@" in address or holds_secret(address) or holds_secret(asked):
        raise InputError(
            "base_url holds a name, password or key, which Inspect would write to its logs; leave it out of the "
            "address and set the provider's variable instead"
        )
    return address.partition("?")[0]
