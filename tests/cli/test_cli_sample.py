"""`hopscope sample FORMULATION`: the contract other programs build on."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from text_reader import solve

from hopscope.cli import main
from hopscope.problem.text.questions import FORMULATIONS, questions


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["sample", *arguments])
    assert isinstance(stop.value.code, int)
    return stop.value.code


@pytest.mark.parametrize("name", FORMULATIONS)
def test_json_lines(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    hops = str(FORMULATIONS[name].paper_hops)
    assert run(name, "--hops", hops, "--count", "7", "--seed", "9") == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [r["id"] for r in records] == [q.id for q in questions(name, count=7, seed=9)]
    for record in records:
        assert record["formulation"] == name
        assert record["hops"] == int(hops)
        assert record["guess"] == 1 / len(record["acceptable"])
        assert solve(record["prompt"]) == record["answer"]


def test_out_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("equations", "--count", "3", "--out", str(tmp_path / "q.jsonl"), "--roles", "--names", "random") == 0
    assert capsys.readouterr().out == ""
    records = [json.loads(line) for line in (tmp_path / "q.jsonl").read_text().splitlines()]
    assert [record["extensions"] for record in records] == [{"names": "random"}] * 3
    first = records[0]["mentions"][0]
    assert records[0]["prompt"][first["start"] : first["end"]] == records[0]["prompt"].split(" ")[0]
    assert [path.name for path in tmp_path.iterdir()] == ["q.jsonl"]


def test_json_is_the_default_and_text_excludes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for more in ((), ("--json",)):
        assert run("equations", "--count", "2", *more) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] != ""
    assert run("equations", "--text", "--out", str(tmp_path / "q.jsonl")) == 2
    out, err = capsys.readouterr()
    assert (out, "leave --text out" in err) == ("", True)
    assert not any(tmp_path.iterdir())


def test_vectors_are_written_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "v.jsonl"
    assert run("vectors", "--count", "3", "--json") == 0
    printed = capsys.readouterr().out
    assert run("vectors", "--count", "3", "--out", str(file)) == 0
    assert (capsys.readouterr().out, file.read_text()) == ("", printed)
    assert run("vectors", "--count", "4", "--out", str(file)) == 2
    assert "v.jsonl exists; move it away or write elsewhere" in capsys.readouterr().err
    assert file.read_text() == printed


@pytest.mark.parametrize("name", ["new.jsonl", "metrics.jsonl", "new.parquet"])
def test_no_sample_is_written_into_a_run(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "metrics.jsonl").write_text("rows\n")
    assert run("equations", "--out", str(tmp_path / name)) == 2
    assert "choose a place outside it" in capsys.readouterr().err
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"run.json": "{}", "metrics.jsonl": "rows\n"}


def test_parquet(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("pyarrow") is None:
        assert run("kingdoms", "--out", str(tmp_path / "q.parquet")) == 2
        assert "pip install -c constraints.txt '.[parquet]'" in capsys.readouterr().err
        pytest.skip("pyarrow is not installed; its absence was tested instead")
    from pyarrow import parquet

    assert run("kingdoms", "--count", "3", "--out", str(tmp_path / "q.parquet")) == 0
    rows = parquet.read_table(tmp_path / "q.parquet").to_pylist()
    assert [row["prompt"] for row in rows] == [q.prompt for q in questions("kingdoms", count=3)]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert run("kingdoms", "--out", str(tmp_path / "r.parquet")) == 2
    assert not (tmp_path / "r.parquet").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["equations", "--hops", "7"], "got 7; pass --names extended"),
        (["equations", "--out", "q.csv"], "--out must end in .jsonl or .parquet, got q.csv"),
        (["kingdoms", "--lines", "odd"], "'odd' is not of the kind blocks|reversed|shuffled"),
    ],
)
def test_bad_input(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


def test_questions_need_nothing_but_python() -> None:
    """Neither torch nor numpy comes along; and the probe can fail."""
    program = "import sys; import hopscope.problem.text.questions, hopscope.cli.sample_verb; "
    program += "print(bool({'torch', 'numpy'} & set(sys.modules)))"
    for extra, expected in (("", "False"), ("import numpy; ", "True")):
        done = subprocess.run([sys.executable, "-c", extra + program], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == expected
