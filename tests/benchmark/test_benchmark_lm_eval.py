"""The adapter for lm-evaluation-harness, offline, against a random model and against exact mode."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import pytest

from hopscope.benchmark.lm_eval_tasks import harness_tasks as harness
from hopscope.benchmark.lm_eval_tasks.harness_tasks import FOLDER, accuracies
from hopscope.problem.text.questions import FORMULATIONS


def test_a_task_file_for_every_formulation() -> None:
    for form in FORMULATIONS.values():
        text = (FOLDER / f"hopscope_{form.task}.yaml").read_text()
        assert f"task: hopscope_{form.task}\n" in text
        assert f"custom_dataset: !function harness_tasks.{form.task}\n" in text
        assert callable(getattr(harness, form.task))


def test_accuracies_from_log_likelihoods() -> None:
    logs = [(-1001.0, False), (-1000.0, True), (-1002.0, False)]
    found = accuracies({"gold": 1}, logs)
    assert found == {"accuracy": pytest.approx(1 / (1 + math.exp(-1) + math.exp(-2))), "likeliest": 1.0}
    assert accuracies({"gold": 0}, logs)["likeliest"] == 0.0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_an_untaught_model_is_at_chance(trained: tuple[Path, Any]) -> None:
    for package in ("lm_eval", "accelerate"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed; pip install 'hopscope[lm-eval]'")
    import lm_eval
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    from hopscope.benchmark.local import LocalModel
    from hopscope.benchmark.settings import BenchmarkSettings, Cell
    from hopscope.statistics import wilson

    folder, count = trained[0], 100
    tasks = TaskManager(
        include_path=str(FOLDER), include_defaults=False, metadata={"hops": [1, 2], "count": count, "seed": 0}
    )
    model = HFLM(pretrained=str(folder), device="cpu", batch_size=64)
    found = lm_eval.simple_evaluate(
        model=model, tasks=["hopscope_equations"], task_manager=tasks, bootstrap_iters=0, log_samples=True
    )
    assert found is not None
    result = found["results"]["hopscope_equations"]
    low, high = wilson(result["accuracy,none"] * 2 * count, 2 * count)
    assert low <= 0.25 <= high
    assert result["sample_len"] == 2 * count

    # Exact mode weighs the end too: without it, each answer's weight is as a slow reading gives it.
    import torch

    items = [q for d in (1, 2) for q in BenchmarkSettings().questions(Cell("equations", d), count)]
    local = LocalModel(folder, "cpu")
    for sample in found["samples"]["hopscope_equations"][:3]:
        item = items[sample["doc_id"]]
        assert sample["doc"]["prompt"] == item.prompt
        # The harness cuts before the line break, which our tokenizer writes together with the instruction.
        ids = local._tokenizer(item.prompt)["input_ids"]
        with torch.no_grad():
            logs = local._model(torch.tensor([ids])).logits[0, -1].double().log_softmax(-1)
        weights = {a: float(logs[local._tokenizer.convert_tokens_to_ids(a)].exp()) for a in item.acceptable}
        assert sample["accuracy"] == pytest.approx(weights[item.answer] / sum(weights.values()), rel=1e-3)
