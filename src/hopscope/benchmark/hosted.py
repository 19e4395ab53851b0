"""Any model that Inspect AI can reach: `openai/...`, `anthropic/...`, `hf/...`, `openai-api/local/...`, ..."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hopscope.benchmark.names import is_secret, redacted
from hopscope.benchmark.settings import Settings
from hopscope.errors import InputError
from hopscope.problem.text.questions import FORMULATIONS, Question

Keep = Callable[[dict[str, Any]], None]


class HostedModel:
    """A model behind one of Inspect's providers.

    Args:
        name: as Inspect names it, provider first.
        logs: where Inspect's own logs go; its viewer reads them (`inspect view --log-dir ...`).
        base_url: address of the endpoint, where the provider takes one.
        arguments: the provider's own arguments (Inspect's `-M`).
        connections: calls at a time.
        timeout: seconds of silence after which a call is made again.
        price: US dollars for a million tokens in and out, where the provider does not say.

    Raises:
        InputError: Inspect is not installed, or knows no such model or key.
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
    ) -> None:
        try:
            from inspect_ai.model import GenerateConfig, get_model

            from hopscope.benchmark.guard import guard
        except ImportError:
            raise InputError("models behind a provider need inspect-ai; pip install 'hopscope[llm]'") from None
        public = {key: str(value) for key, value in (arguments or {}).items() if not is_secret(key)}
        self.name, self.identity = name, {"arguments": public}
        self._logs, self._price = logs, price
        config = GenerateConfig(max_connections=connections, attempt_timeout=timeout, max_retries=6)
        try:
            self._model = guard(
                get_model(name, config=config, base_url=base_url, memoize=False, **dict(arguments or {}))
            )
        except Exception as error:  # whatever a provider raises while it starts
            raise InputError(f"the model {name} cannot be opened: {_sentence(error)}") from None

    def ask(self, questions: Sequence[Question], settings: Settings, keep: Keep) -> None:
        """Put questions until each is settled; `keep` gets each record as it comes.

        Raises:
            KeyboardInterrupt: the run was interrupted; what was settled is kept.
        """
        from inspect_ai import eval as evaluate

        from hopscope.benchmark.tasks import build

        by_formulation = {form: [q for q in questions if q.formulation == form] for form in FORMULATIONS}
        tasks = [
            build(FORMULATIONS[form].task, those, settings, keep, self._price, model=self.name)
            for form, those in by_formulation.items()
            if those
        ]
        logs = evaluate(
            tasks,
            model=self._model,
            log_dir=str(self._logs),
            display="none",
            max_tasks=len(tasks),
            fail_on_error=False,
            log_realtime=False,
        )
        if any(log.status == "cancelled" for log in logs):
            raise KeyboardInterrupt

    def weigh(self, questions: Sequence[Question], settings: Settings, keep: Keep) -> None:
        """Exact mode. See `hopscope.benchmark.endpoint`."""
        from hopscope.benchmark.endpoint import weigh

        weigh(self._model, self.name, questions, settings, keep)


def _sentence(error: Exception) -> str:
    text = redacted(str(error)).strip().splitlines()
    return (text or [type(error).__name__])[0][:300]
