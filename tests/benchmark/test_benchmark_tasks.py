"""The tasks of Inspect AI: found by name, their arguments as text, and what is measured."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="the extra `llm` is not installed")

from inspect_ai import eval as evaluate
from inspect_ai.model import ChatMessage, GenerateConfig, ModelAPI, ModelOutput, ModelUsage, modelapi

from hopscope.benchmark.settings import BenchmarkSettings, Cell
from hopscope.errors import InputError
from hopscope.problem.text.formulation import Extensions
from hopscope.problem.text.questions import Question, question

# Warnings are of Inspect and what it imports.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("collected")]

ACCEPTS, RIGHT = 0.5, 0.8


def say(item: Question, rng: random.Random) -> str:
    """An acceptable answer with probability ACCEPTS, and then the right one with probability RIGHT."""
    if rng.random() >= ACCEPTS:
        return f"The answer is {item.answer}."
    return item.answer if rng.random() < RIGHT else next(a for a in item.acceptable if a != item.answer)


@modelapi(name="reliable")
def reliable() -> type[ModelAPI]:
    class Reliable(ModelAPI):
        rng = random.Random(1)

        async def generate(self, input: list[ChatMessage], tools: Any, tool_choice: Any, config: GenerateConfig) -> Any:
            assert len(input) == 1, "earlier attempts must not be part of the conversation"
            item = BY_PROMPT[input[0].text]
            output = ModelOutput.from_content(self.model_name, say(item, self.rng))
            output.usage = ModelUsage(input_tokens=100, output_tokens=1, total_tokens=101)
            return output

    return Reliable


BY_PROMPT: dict[str, Question] = {}


@pytest.mark.slow
def test_tasks_by_entry_point_with_known_reliability(tmp_path: Path) -> None:
    """`hopscope/equations` as `inspect eval` finds it, its arguments arriving as text."""
    shuffled = BenchmarkSettings(extensions=Extensions(lines="shuffled"))
    BY_PROMPT.update({item.prompt: item for d in (1, 2) for item in shuffled.questions(Cell("equations", d), 40)})
    [log] = evaluate(
        "hopscope/equations",
        task_args={"hops": ["1", "2"], "count": "40", "attempts": "4", "lines": "shuffled"},
        model="reliable/any",
        log_dir=str(tmp_path / "logs"),
        display="none",
        log_realtime=False,
    )
    assert log.status == "success"
    assert log.results is not None
    metrics = {name: m.value for name, m in log.results.scores[0].metrics.items()}
    assert {"D1_accuracy", "D2_accuracy", "D2_low", "D2_never_accepted"} <= set(metrics)
    records = [s.scores["answer"].metadata["hopscope"] for s in log.samples or [] if s.scores]  # type: ignore[index]
    assert len(records) == 80
    for record in records:
        assert len(record["rejected"]) == record["attempts"] - (record["accepted"] is not None)
        assert record["rule"] == "exact"
    right = sum(r["correct"] for r in records if r["hops"] == 2 and r["accepted"])
    assert metrics["D2_accuracy"] == right / sum(r["accepted"] is not None for r in records if r["hops"] == 2)


def test_all_five_tasks_are_registered() -> None:
    from hopscope.benchmark import hosted
    from hopscope.benchmark.hosted import TASKS

    assert set(TASKS) == {"equations", "lives_with", "kingdoms", "functions", "relatives"}
    for name in TASKS:
        task = getattr(hosted, name)(count="2")
        first = task.dataset[0]
        item = question(name, hops=int(first.metadata["hops"]))
        assert (first.input, first.target, first.id) == (item.prompt, item.answer, item.id)
        assert len(task.dataset) == (12 if name == "equations" else 2)
    with pytest.raises(InputError, match="temperature must be above 0 in exact mode"):
        TASKS["kingdoms"](temperature="0")
    with pytest.raises(InputError, match="does not fit"):
        TASKS["equations"](hops="1,two")
    with pytest.raises(InputError, match="there is no option 'colour'"):
        TASKS["equations"](colour="red")
