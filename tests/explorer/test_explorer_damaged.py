"""What is damaged, or of something else, is left out of a page; the page says so, and so does the shell."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner
from explorer_pages import Reader, witness_recipes
from known_run import circuit_json

from hopscope.cli.folder_verbs import explore as command
from hopscope.explorer.exhibit import exhibit
from hopscope.explorer.page import build
from hopscope.training.run import RunFolder


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
