"""Damaged records are left out of a page, which says so; a compact copy of a run has the run's page."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from explorer_pages import Reader, explored, witness_recipes
from known_run import STEPS, circuit_json

from hopscope.cli.folder_verbs import explore as command
from hopscope.errors import InputError
from hopscope.explorer.exhibit import compact_export, exhibit, exhibits
from hopscope.explorer.page import build
from hopscope.training.run import ModelResult, Result, RunFolder


@pytest.fixture(autouse=True)
def _witness_architecture():
    with witness_recipes():
        yield


@pytest.mark.parametrize(
    ("name", "damage", "words"),
    [
        ("emergence.json", lambda text: text[:-40], "emergence.json is not readable"),
        ("emergence.json", lambda text: text.replace('"seed": 0', '"seed": 1', 1), "emergence.json is damaged"),
        ("emergence-maps.json", lambda text: text.replace('"layers": 3', '"layers": 2'), "maps.json is damaged"),
        ("circuit.json", lambda text: text.replace('"max_loss": 0.05', '"max_loss": "low"'), "circuit.json is damaged"),
        ("metrics.jsonl", lambda text: "{}\n" + text, "metrics.jsonl"),
    ],
)  # fmt: skip
def test_what_is_damaged_is_left_out_and_said(run, tmp_path, name, damage, words):
    hurt = tmp_path / "hurt"
    shutil.copytree(run.path, hurt)
    text = (hurt / name).read_text()
    assert damage(text) != text
    (hurt / name).write_text(damage(text))
    one = exhibit(RunFolder(hurt), 0)
    assert words in " ".join(one.missing)
    page = build([one])
    assert words.split(":")[0] in Reader(page.html).text
    assert page.damaged == one.damaged
    assert words in " ".join(one.damaged)


def test_damage_is_said_in_the_shell_too_with_the_path_as_it_is_written(run, tmp_path, monkeypatch):
    """Who writes a page from a script never sees what the page says."""
    shutil.copytree(run.path, tmp_path / "hurt")
    (tmp_path / "hurt" / "circuit.json").write_bytes(b"\xff\xfe")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(command, ["hurt"])
    assert done.exit_code == 0
    assert done.stdout.strip() == "hurt/explorer.html"
    assert "left out: hurt/circuit.json is not readable" in done.stderr


def test_an_emergence_of_another_circuit_is_not_shown(run, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(run.path, other)
    record = json.loads((other / "circuit.json").read_text())
    circuit_json(RunFolder(other), other / "circuit.json", paths=record["paths"][:-1])
    one = exhibit(RunFolder(other), 0)
    assert one.emergence is None
    assert "is of another circuit" in " ".join(one.missing)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    with witness_recipes():
        run = explored(tmp_path_factory.mktemp("whole") / "run")
        models = (
            ModelResult(number, seed, name, 0.0, (0.0,) * 3, 0.0, 0.0, (0.0,) * 3)
            for number, (seed, name) in enumerate(zip(run.seeds, run.model_hashes, strict=True))
        )
        run.finish(Result(STEPS, 64, tuple(models)))
        return RunFolder(run.path)


def page(run: RunFolder) -> str:
    return build(exhibits([run])).html.replace(run.path.as_posix(), "HERE")


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_the_page_of_the_copy_is_that_of_the_run(finished: RunFolder, tmp_path: Path) -> None:
    copy = compact_export(finished, tmp_path / "run")
    assert page(RunFolder(copy.path)) == page(finished)
    assert list(copy.checkpoints) == [max(finished.checkpoints)]
    assert size(copy.path / "checkpoints") < 0.6 * finished.checkpoints[max(finished.checkpoints)].stat().st_size


def test_what_is_there_stays(finished: RunFolder, tmp_path: Path) -> None:
    copy = compact_export(finished, tmp_path / "run")
    before = {path: path.read_bytes() for path in copy.path.rglob("*") if path.is_file()}
    (copy.path / "result.json").unlink()  # as one that is still being trained
    del before[copy.path / "result.json"]
    for folder in (copy.path, finished.path):
        with pytest.raises(InputError, match="is in use; choose a new or empty folder"):
            compact_export(finished, folder)
    with pytest.raises(InputError, match=f"lies in the run {finished.path}"):
        compact_export(finished, finished.path / "small")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="in use"):
        compact_export(finished, tmp_path / "other")
    assert {path: path.read_bytes() for path in copy.path.rglob("*") if path.is_file()} == before


def test_the_option(finished: RunFolder, tmp_path: Path) -> None:
    small = tmp_path / "small"
    result = CliRunner().invoke(
        command, [str(finished.path), "--out", str(tmp_path / "a.html"), "--compact", str(small)]
    )
    assert result.exit_code == 0, result.output
    assert RunFolder(small).finished
    two = CliRunner().invoke(command, [str(finished.path), str(small), "--compact", str(tmp_path / "more")])
    assert "--compact copies one run, got 2" in str(two.exception or two.output)
