"""Records that a page is made of: a damaged one is refused, one of another circuit is not shown."""

from __future__ import annotations

import json
import shutil

import pytest
from explorer_pages import witness_recipes
from known_run import circuit_json

from hopscope.errors import InputError
from hopscope.explorer.exhibit import exhibit
from hopscope.training.run import RunFolder


@pytest.fixture(autouse=True)
def _witness_architecture():
    with witness_recipes():
        yield


@pytest.mark.parametrize(
    ("name", "damage", "words"),
    [
        ("emergence.json", lambda text: text.replace('"seed": 0', '"seed": 1', 1), "emergence.json is damaged"),
        ("emergence-maps.json", lambda text: text.replace('"layers": 3', '"layers": 2'), "maps.json is damaged"),
        ("circuit.json", lambda text: text.replace('"max_loss": 0.05', '"max_loss": "low"'), "circuit.json is damaged"),
        ("metrics.jsonl", lambda text: "{}\n" + text, "metrics.jsonl"),
    ],
)  # fmt: skip
def test_explorer_refuses_damaged_records(run, tmp_path, name, damage, words):
    hurt = tmp_path / "hurt"
    shutil.copytree(run.path, hurt)
    text = (hurt / name).read_text()
    assert damage(text) != text
    (hurt / name).write_text(damage(text))
    with pytest.raises(InputError, match=words):
        exhibit(RunFolder(hurt), 0)


def test_an_emergence_of_another_circuit_is_not_shown(run, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(run.path, other)
    record = json.loads((other / "circuit.json").read_text())
    circuit_json(RunFolder(other), other / "circuit.json", paths=record["paths"][:-1])
    one = exhibit(RunFolder(other), 0)
    assert one.emergence is None
    assert "is of another circuit" in " ".join(one.missing)
