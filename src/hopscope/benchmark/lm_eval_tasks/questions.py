"""What the task files call: the questions, and how the log-likelihoods of the acceptable answers become accuracies.

The harness cannot ask again until an answer is acceptable, so it reports the limit of asking again:
P(correct) / P(acceptable). Its likelihoods are of the answers without their end, unlike those of
`hopscope benchmark --exact`; no acceptable answer begins another, so each still stands for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import exp
from typing import Any

from hopscope.problem.text import questions as text


def dataset(name: str) -> Callable[..., dict[str, Any]]:
    """The questions of a formulation, as the harness wants them.

    The harness's `--metadata` may set `hops` (a number or several), `count` and `seed`.
    """

    def build(hops: int | Sequence[int] | None = None, count: int = 500, seed: int = 0, **_: Any) -> dict[str, Any]:
        from datasets import Dataset

        wanted = [hops] if hops is None or isinstance(hops, int) else list(hops)
        rows = [
            {"prompt": q.prompt, "choices": list(q.acceptable), "gold": q.acceptable.index(q.answer), "id": q.id}
            for d in wanted
            for q in text.questions(name, d, count, seed)
        ]
        return {"test": Dataset.from_list(rows)}

    return build


globals().update({form.task: dataset(name) for name, form in text.FORMULATIONS.items()})


def accuracies(doc: Mapping[str, Any], results: Sequence[tuple[float, bool]]) -> dict[str, float]:
    """The probability of the right answer among the acceptable ones, and whether it is the likeliest of them."""
    logs = [log for log, _ in results]
    top = max(logs)
    weights = [exp(log - top) for log in logs]
    return {
        "accuracy": weights[doc["gold"]] / sum(weights),
        "likeliest": float(logs.index(top) == doc["gold"]),
    }
