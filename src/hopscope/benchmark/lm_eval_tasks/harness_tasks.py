"""The formulations as tasks of lm-evaluation-harness; its `--include_path` takes the folder that this module prints:

    lm_eval --include_path "$(python -m hopscope.benchmark.lm_eval_tasks.harness_tasks)" --tasks hopscope_equations \\
        --model hf --model_args pretrained=MODEL --metadata '{"hops": [1, 2, 3], "count": 100, "form": "code"}'

The harness cannot ask again until an answer is acceptable, so it reports the accuracy with unlimited attempts:
P(correct) / P(acceptable). Unlike in `hopscope benchmark --exact`, the likelihood of an answer does not include the end
of the reply. No two answers are confused, since no acceptable answer begins with another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from math import exp
from pathlib import Path
from typing import Any

from hopscope.problem.text import questions as text
from hopscope.problem.text.formulation import Extensions

FOLDER = Path(__file__).parent
"""The folder of the task files."""


def dataset(name: str) -> Callable[..., dict[str, Any]]:
    """Return a function that makes the questions of a formulation, in the format of the harness.

    The harness's `--metadata` can set `hops` (a number or several), `count`, `seed` and extensions such as `form`.
    """

    def build(hops: int | Sequence[int] | None = None, count: int = 500, seed: int = 0, **more: Any) -> dict[str, Any]:
        from datasets import Dataset

        known = {part.name for part in fields(Extensions)}
        extensions = Extensions(**{key: value for key, value in more.items() if key in known})
        between = "\n" if extensions.form == "instruction" else " "
        wanted = [hops] if hops is None or isinstance(hops, int) else list(hops)
        rows = [
            {
                "prompt": q.prompt,
                "choices": [between + answer for answer in q.acceptable],
                "gold": q.acceptable.index(q.answer),
                "id": q.id,
            }
            for d in wanted
            for q in text.questions(name, d, count, seed, extensions=extensions)
        ]
        return {"test": Dataset.from_list(rows)}

    return build


globals().update({form.task: dataset(name) for name, form in text.FORMULATIONS.items()})


def accuracies(doc: Mapping[str, Any], results: Sequence[tuple[float, bool]]) -> dict[str, float]:
    """Return the probability of the right answer among the acceptable answers, and whether it is the likeliest."""
    logs = [log for log, _ in results]
    top = max(logs)
    weights = [exp(log - top) for log in logs]
    return {"accuracy": weights[doc["gold"]] / sum(weights), "likeliest": float(logs.index(top) == doc["gold"])}


if __name__ == "__main__":
    print(FOLDER)
