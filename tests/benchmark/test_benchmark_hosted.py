"""Inspect AI: the tasks by name; endpoints behind it that fail, refuse or never reply, a kill, an echoed key."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("inspect_ai", reason="the extra `llm` is not installed")

import random
from typing import Any

from inspect_ai import eval as evaluate
from inspect_ai.log import list_eval_logs, read_eval_log
from inspect_ai.model import ChatMessage, ModelOutput, ModelUsage, get_model
from loopback import FAULTS, Server, serving

from hopscope.benchmark import hosted as hosted_tasks
from hopscope.benchmark.hosted import HostedModel
from hopscope.benchmark.run import benchmark
from hopscope.benchmark.settings import BenchmarkSettings, Cell, cells
from hopscope.errors import InputError, MachineError
from hopscope.problem.text.formulation import Extensions
from hopscope.problem.text.questions import FORMULATIONS, Question, question

# Warnings are of Inspect and what it imports.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("collected")]

POINTS = (["equations", "kingdoms"], [1, 2])
CELLS = cells(*POINTS)
ONE = (["equations"], [1])
SECRET = "sk-very-secret-key-0123456789"


def all_questions(count: int) -> list[Question]:
    return [item for cell in CELLS for item in BenchmarkSettings().questions(cell, count)]


def hosted(server: Server, out: Path, name: str = "openai-api/local/model") -> HostedModel:
    return HostedModel(name, out / "inspect", base_url=server.url, timeout=3, connections=8)


def text_of_everything(folder: Path) -> str:
    """All that was written below a folder, compressed logs read by the library that wrote them."""
    texts = [path.read_bytes().decode("utf-8", "replace") for path in folder.rglob("*") if path.is_file()]
    for info in list_eval_logs(str(folder)):
        texts.append(read_eval_log(info).model_dump_json())
    return "\n".join(texts)


@pytest.mark.slow
def test_a_failing_server_loses_nothing(tmp_path: Path) -> None:
    """Every tenth call fails, each in another way; and a hostile name, and a key that the server repeats."""
    name, count = "openai-api/local/a|b`c<b>[red]$x$/../../d\n'\"e", 24
    out = tmp_path / "out"
    with serving(Server(all_questions(count), every=10)) as server:
        summary = benchmark([hosted(server, out, name)], out, *POINTS, count)
    assert set(server.faults) == set(FAULTS)
    for point in summary.points:
        assert point.model == name
        assert (point.asked, point.unanswered, point.accuracy) == (count, 0, 1.0)
    rows = [json.loads(row) for row in next((out / "records").iterdir()).read_text().splitlines()]
    assert len(rows) == len({row["id"] for row in rows}) == len(CELLS) * count
    assert all(len(row["rejected"]) == row["attempts"] - 1 for row in rows)
    # Two good replies a question; on a busy machine one may come after the caller gave up waiting.
    replies, attempts = sum(server.served.values()), sum(row["attempts"] for row in rows)
    assert attempts <= replies <= attempts + server.calls // 10
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "out"]
    assert [path.parent.name for path in out.rglob("*.jsonl")] == ["records"]
    assert SECRET not in text_of_everything(tmp_path)
    markdown = (out / "accuracy.md").read_text().splitlines()
    assert len(markdown) == 2 + len(CELLS)
    assert len({len(line.replace("\\|", "").split("|")) for line in markdown}) == 1
    assert "<b>" not in "".join(markdown)
    from hopscope.paper.section_4 import figure_2
    from hopscope.plot import save

    assert len(save(figure_2(summary.points), out / "figure-2")) == 3


@pytest.mark.slow
def test_a_reply_is_stored_up_to_a_length(tmp_path: Path) -> None:
    settings = BenchmarkSettings(attempts=2)
    with serving(Server(all_questions(2), direct=True)) as server:
        server.long, server.tokens = 2_000_000, -1_000_000
        [point] = benchmark([hosted(server, tmp_path)], tmp_path, *ONE, 2, settings).points
    assert (point.never_accepted, point.reasoned) == (2, 0)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize(("status", "why"), [(400, "bad key"), (500, "InternalServerError")])
def test_a_run_whose_calls_keep_failing_ends_and_no_key_is_written(
    status: int, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the same command goes on."""
    monkeypatch.setattr("hopscope.benchmark.hosted.AGAIN", 0)
    monkeypatch.setattr("hopscope.benchmark.hosted.FAILED", 2)
    monkeypatch.setattr("hopscope.benchmark.hosted.RETRIES", 1)
    out, count = tmp_path / "out", 12
    with serving(Server(all_questions(count))) as server:
        server.refuse = status
        with pytest.raises(MachineError, match=f"local/model: calls kept failing: .*{why}"):
            benchmark([hosted(server, out)], out, *ONE, count)
        assert server.refusals <= 8 * count  # client and provider each repeat a call that may pass
        assert SECRET not in text_of_everything(tmp_path)
        server.refuse = None
        summary = benchmark([hosted(server, out)], out, *ONE, count)
    assert [(point.unanswered, point.accuracy) for point in summary.points] == [(0, 1.0)]


@pytest.mark.slow
def test_the_record_of_a_question_without_reply_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hopscope.benchmark.hosted.AGAIN", 0)
    monkeypatch.setattr("hopscope.benchmark.hosted.RETRIES", 1)
    with serving(Server(all_questions(2))) as server:
        server.refuse = 400
        [point] = benchmark([hosted(server, tmp_path)], tmp_path, *ONE, 2).points
    assert point.unanswered == 2
    rows = [json.loads(row) for row in next((tmp_path / "records").iterdir()).read_text().splitlines()]
    assert all("bad key" in row["error"] for row in rows)
    assert SECRET not in text_of_everything(tmp_path)


def test_an_endpoint_cannot_be_weighed(tmp_path: Path) -> None:
    model = HostedModel("openai-api/local/m", tmp_path, base_url="http://127.0.0.1:9/v1")
    with pytest.raises(InputError, match="does not say how likely each answer is; leave out exact mode"):
        benchmark([model], tmp_path, *ONE, 2, BenchmarkSettings(mode="exact"))


def test_hidden_reasoning_is_noticed(tmp_path: Path) -> None:
    with serving(Server(all_questions(3), reasoning=7)) as server:
        summary = benchmark([hosted(server, tmp_path)], tmp_path, *ONE, 3)
    [point] = summary.points
    assert point.reasoned == 3


@pytest.mark.parametrize(("changing", "repeats"), [(0, 4 * 19), (1, 0)])
def test_a_server_that_ignores_the_temperature_is_named(changing: int, repeats: int, tmp_path: Path) -> None:
    """It gives four questions one unacceptable reply for ever; where one of them gets another one, it obeys."""
    items = BenchmarkSettings().questions(CELLS[0], 6)
    with serving(Server(items, direct=True)) as server:
        server.stuck = {item.prompt for item in items[changing:4]}
        server.direct = not changing
        [point] = benchmark([hosted(server, tmp_path)], tmp_path, *ONE, 6).points
    assert point.unchanged == repeats
    said = "local/model was asked again 76 times and always gave its first reply: the temperature seems to have no"
    assert (said in (tmp_path / "accuracy.md").read_text()) == (not changing)


@pytest.mark.slow
def test_kill_and_resume_asks_nothing_twice(tmp_path: Path) -> None:
    count, connections, out = 20, 4, tmp_path / "killed"
    items = all_questions(count)
    with serving(Server(items, direct=True)) as server:
        arguments = ["--model", "openai-api/local/m", "--base-url", server.url, "--connections", str(connections)]
        arguments += ["--formulation", "equations", "--formulation", "kingdoms", "--hops", "1,2"]
        arguments += ["--count", str(count), "--out", str(out), "--json"]
        command = [sys.executable, "-c", "from hopscope.cli import main; main()", "benchmark", *arguments]
        process = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL)
        server.when = (30, process.kill)
        process.wait()
        assert 30 <= sum(server.served.values()) < 30 + connections
        summary = benchmark([hosted(server, out, "openai-api/local/m")], out, *POINTS, count)
    assert sum(server.served.values()) <= len(items) + connections
    assert len(server.served) == len({item.prompt for item in items})
    assert [point.asked for point in summary.points] == [count] * len(CELLS)
    assert [point.accuracy for point in summary.points] == [1.0] * len(CELLS)
    rows = next((out / "records").iterdir()).read_text().splitlines()
    assert len(rows) == len({json.loads(row)["id"] for row in rows}) == len(items)


def test_a_key_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_API_KEY", raising=False)
    with pytest.raises(InputError, match=r"opened: Unable to .*: No LOCAL_API_KEY defined in the environment"):
        HostedModel("openai-api/local/m", tmp_path)


ACCEPTS, RIGHT = 0.5, 0.8


def say(item: Question, rng: random.Random) -> str:
    """An acceptable answer with probability ACCEPTS, and then the right one with probability RIGHT."""
    if rng.random() >= ACCEPTS:
        return f"The answer is {item.answer}."
    return item.answer if rng.random() < RIGHT else next(a for a in item.acceptable if a != item.answer)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hopscope/equations", f"{hosted_tasks.__file__}@equations"], ids=["name", "file"])
def test_tasks_by_name_and_by_file_with_known_reliability(name: str, tmp_path: Path) -> None:
    """As `inspect eval` finds them, by file for users of the Inspect register; `resample` asks until it is content."""
    shuffled, rng = BenchmarkSettings(extensions=Extensions(lines="shuffled")), random.Random(1)
    by_prompt = {item.prompt: item for d in (1, 2) for item in shuffled.questions(Cell("equations", d), 40)}

    def reliable(messages: list[ChatMessage], *_: Any) -> ModelOutput:
        assert len(messages) == 1, "earlier attempts must not be part of the conversation"
        output = ModelOutput.from_content("mockllm/model", say(by_prompt[messages[0].text], rng))
        output.usage = ModelUsage(input_tokens=100, output_tokens=1, total_tokens=101)
        return output

    [log] = evaluate(
        name,
        task_args={"hops": ["1", "2"], "count": "40", "attempts": "4", "lines": "shuffled"},
        model=get_model("mockllm/model", custom_outputs=reliable),
        log_dir=str(tmp_path / "logs"),
        display="none",
        log_realtime=False,
    )
    assert log.eval.task_version == hosted_tasks.VERSION
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


def test_all_five_tasks_have_the_questions() -> None:
    for form in FORMULATIONS.values():
        task = getattr(hosted_tasks, form.task)(count="2")
        first = task.dataset[0]
        item = question(form.name, hops=int(first.metadata["hops"]))
        assert (first.input, first.target, first.id) == (item.prompt, item.answer, item.id)
        assert len(task.dataset) == (12 if form.name == "equations" else 2)
        assert first.metadata["hops"] == (1 if form.name == "equations" else form.paper_hops)
    with pytest.raises(InputError, match="temperature must be above 0 in exact mode"):
        hosted_tasks.kingdoms(temperature="0")
    with pytest.raises(InputError, match="does not fit"):
        hosted_tasks.equations(hops="1,two")
    with pytest.raises(InputError, match="there is no option 'colour'"):
        hosted_tasks.equations(colour="red")
