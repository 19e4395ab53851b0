"""Endpoints behind Inspect AI: a server that fails, refuses or never replies, a kill, an echoed key."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("inspect_ai", reason="the extra `llm` is not installed")

from inspect_ai.log import list_eval_logs, read_eval_log
from loopback import FAULTS, WEIGHTS, Server, serving

from hopscope.benchmark.hosted import HostedModel
from hopscope.benchmark.points import Summary
from hopscope.benchmark.results import cells as cells_of
from hopscope.benchmark.run import benchmark
from hopscope.benchmark.settings import BenchmarkSettings, cells
from hopscope.errors import InputError, MachineError
from hopscope.problem.text.questions import Question

# Warnings are of Inspect and what it imports.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("collected")]

POINTS = (["equations", "kingdoms"], [1, 2])
CELLS = cells(*POINTS)
ONE = (["equations"], [1])
SECRET = "sk-very-secret-key-0123456789"


def all_questions(count: int) -> list[Question]:
    return [item for cell in CELLS for item in BenchmarkSettings().questions(cell, count)]


def hosted(server: Server, out: Path, name: str = "openai-api/local/model") -> HostedModel:
    return HostedModel(name, out / "inspect", base_url=server.url, timeout=3, connections=8, price=(2.0, 10.0))


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
        assert point.cost == pytest.approx(count * point.mean_attempts * (10 * 2.0 + 2 * 10.0) / 1e6)
    rows = [json.loads(row) for row in next((out / "records").iterdir()).read_text().splitlines()]
    assert len(rows) == len({row["id"] for row in rows}) == len(CELLS) * count
    assert all(len(row["rejected"]) == row["attempts"] - 1 for row in rows)
    # Two good replies a question; on a busy machine one may come after the caller gave up waiting.
    replies, attempts = sum(server.served.values()), sum(row["attempts"] for row in rows)
    assert attempts <= replies <= attempts + server.calls // 10
    assert sum(point.failures for point in summary.points) <= sum(server.faults.values())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "out"]
    assert [path.parent.name for path in out.rglob("*.jsonl")] == ["records"]
    assert SECRET not in text_of_everything(tmp_path)
    markdown = (out / "accuracy.md").read_text().splitlines()
    assert len(markdown) == 2 + len(CELLS)
    assert all(len(line.replace("\\|", "").split("|")) == len(cells_of(summary.points[0])) + 3 for line in markdown)
    assert "<b>" not in "".join(markdown)
    from hopscope.paper.section_4 import figure_2
    from hopscope.plot import save

    assert len(save(figure_2(summary.points), out / "figure-2")) == 3


@pytest.mark.slow
def test_a_refused_key_stops_early_and_is_written_nowhere(tmp_path: Path) -> None:
    out, count = tmp_path / "out", 20
    with serving(Server(all_questions(count))) as server:
        server.refuse = 401
        with pytest.raises(InputError, match=r"model refuses every question: .*bad key Bearer \[secret\]"):
            benchmark([hosted(server, out)], out, *ONE, count)
        assert [point.unanswered for point in Summary.read(out / "summary.json").points] == [count]
        assert server.refusals <= 8, "one refusal ends the run; only calls under way may follow"
        written = text_of_everything(tmp_path)
        assert "AuthenticationError 401" in written
        assert "bad key" in written
        assert SECRET not in written
        server.refuse = None
        summary = benchmark([hosted(server, out)], out, *ONE, count)
    assert [(point.unanswered, point.accuracy) for point in summary.points] == [(0, 1.0)]


@pytest.mark.slow
def test_an_endpoint_that_never_replies_is_given_up_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hopscope.benchmark.hosted._PATIENCE", 1.0)
    with serving(Server(all_questions(3))) as server:
        server.refuse = 500
        began = time.monotonic()
        with pytest.raises(MachineError, match=r"model never replied: .*bad key"):
            benchmark([hosted(server, tmp_path)], tmp_path, *ONE, 3)
        assert time.monotonic() - began < 20
    assert [point.unanswered for point in Summary.read(tmp_path / "summary.json").points] == [3]


@pytest.mark.slow
def test_a_reply_is_stored_up_to_a_length_and_tokens_are_counted_upwards(tmp_path: Path) -> None:
    settings = BenchmarkSettings(attempts=2)
    with serving(Server(all_questions(2), direct=True)) as server:
        server.long, server.tokens = 2_000_000, -1_000_000
        [point] = benchmark([hosted(server, tmp_path)], tmp_path, *ONE, 2, settings).points
    assert (point.never_accepted, point.output_tokens) == (2, 0)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 1_000_000


def test_hidden_reasoning_is_noticed(tmp_path: Path) -> None:
    with serving(Server(all_questions(3), reasoning=7)) as server:
        summary = benchmark([hosted(server, tmp_path)], tmp_path, *ONE, 3)
    [point] = summary.points
    assert (point.reasoned, point.reasoning_tokens) == (3, 3 * 2 * 7)


@pytest.mark.slow
def test_exact_mode_of_an_endpoint(tmp_path: Path) -> None:
    settings = BenchmarkSettings(mode="exact")
    with serving(Server(all_questions(6), every=35)) as server:
        summary = benchmark([hosted(server, tmp_path)], tmp_path, *POINTS, 6, settings)
    weights = {item.id: dict(zip(item.acceptable, WEIGHTS, strict=True)) for item in all_questions(6)}
    for line in next((tmp_path / "records").iterdir()).read_text().splitlines():
        record = json.loads(line)
        assert record["weights"] == pytest.approx({a: w / 2 for a, w in weights[record["id"]].items()})
    for point in summary.points:
        assert point.first_acceptance == pytest.approx(sum(WEIGHTS) / 2)
        assert point.mean_attempts == pytest.approx(2 / sum(WEIGHTS))
        assert (point.unanswered, point.one_spelling) == (0, 6)
    with pytest.raises(InputError, match="an endpoint weighs at temperature 1"):
        HostedModel("openai-api/local/m", tmp_path, base_url=server.url).weigh(
            [], BenchmarkSettings(mode="exact", temperature=0.5), print
        )


@pytest.mark.slow
def test_endpoints_that_cannot_weigh_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import loopback

    monkeypatch.setattr(loopback, "prompt_logprobs", lambda *_: None)
    with (
        serving(Server(all_questions(2))) as server,
        pytest.raises(InputError, match="gives no probabilities of a prompt"),
    ):
        benchmark([hosted(server, tmp_path)], tmp_path, *POINTS, 2, BenchmarkSettings(mode="exact"))


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
        summary = benchmark([hosted_plain(server, out)], out, *POINTS, count)
    assert sum(server.served.values()) <= len(items) + connections
    assert len(server.served) == len({item.prompt for item in items})
    assert [point.asked for point in summary.points] == [count] * len(CELLS)
    assert [point.accuracy for point in summary.points] == [1.0] * len(CELLS)
    rows = next((out / "records").iterdir()).read_text().splitlines()
    assert len(rows) == len({json.loads(row)["id"] for row in rows}) == len(items)


def hosted_plain(server: Server, out: Path) -> HostedModel:
    return HostedModel("openai-api/local/m", out / "inspect", base_url=server.url)


def test_a_key_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_API_KEY", raising=False)
    with pytest.raises(
        InputError, match=r"cannot be opened: Unable to .*\. No LOCAL_API_KEY defined in the environment"
    ):
        HostedModel("openai-api/local/m", tmp_path)
