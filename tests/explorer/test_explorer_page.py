"""The explorer's file without a browser: what is in it, what is not, and what is said where something is missing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from explorer_pages import Reader, explored, witness_recipes
from known_run import WITNESS, circuit_json, known_run

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import Asked, card_rows
from hopscope.circuits.store import CircuitStore
from hopscope.cli.folder_verbs import explore as command
from hopscope.emergence.history import MAPS_OVER_TIME, Emergence
from hopscope.emergence.track import emergence_of_run
from hopscope.errors import InputError
from hopscope.explorer import page as pages
from hopscope.explorer.exhibit import exhibit, exhibits
from hopscope.explorer.manifest import _gone
from hopscope.explorer.page import build, explore
from hopscope.explorer.stored import SCRIPTS, page_of
from hopscope.explorer.tables import tables
from hopscope.theory.witness import build_witness
from hopscope.training.run import RunFolder

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _witness_architecture():
    with witness_recipes():
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with witness_recipes():
        return explored(tmp_path_factory.mktemp("explored") / "<b>run & co")


@pytest.fixture(scope="module")
def reader(run):
    with witness_recipes():
        return Reader(build(exhibits([run])).html)


def test_the_page_loads_nothing_and_its_policy_names_its_one_script(reader):
    for tag, attributes in reader.elements:
        for name in ("src", "href", "action", "xlink:href", "srcset"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:")), (tag, name, value)
    assert "url(" not in reader.blocks["style"]
    assert "@import" not in reader.blocks["style"]
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|EventSource|import)\s*\(", reader.blocks["program"])
    digest = base64.b64encode(hashlib.sha256(reader.blocks["program"].encode()).digest()).decode()
    (policy,) = (given["content"] for tag, given in reader.elements if given.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}' blob:" in policy
    assert [given.get("id") for tag, given in reader.elements if tag == "script" and "type" not in given] == ["program"]
    assert not any(name.startswith("on") for _, given in reader.elements for name in given)


def test_text_of_a_run_cannot_become_markup(reader):
    assert reader.manifest["models"][0]["name"] == "<b>run & co, seed 0"
    assert "<b>run & co, seed 0" in reader.text
    assert "0.01 <b>& less</b>" in reader.text
    assert all(tag != "b" for tag, _ in reader.elements)
    assert not re.search(r"[<>&\u2028\u2029]", reader.blocks["manifest"])


def test_arrays_in_the_page_are_those_of_the_records(run, reader):
    record = MAPS_OVER_TIME.read(run.path / "emergence-maps.json")
    assert np.array_equal(reader.array("m0-maps"), record.weights)
    state = run.transformer().state_dict()
    live = reader.manifest["models"][0]["live"]
    assert live["names"] == [[name, weight.numel()] for name, weight in state.items()]
    flat = np.concatenate([weight.numpy().reshape(-1) for weight in state.values()])
    stored = reader.array("m0-weights").astype(np.float32)
    assert np.allclose(stored, flat, rtol=1e-3, atol=1e-6)
    losses = reader.array("m0-metrics")
    assert losses.shape == (6, 4)
    assert (losses[:, 1:] == run.metrics.partial_losses[:, 0].astype(np.float32)).all()


def test_numbers_are_the_records(run, reader):
    model, history = reader.manifest["models"][0], Emergence.load(run.path / "emergence.json")
    steps = [path["crossing"]["step"] for path in model["emergence"]["paths"]]
    assert steps == [path.crossing.step for path in history.paths]
    assert model["emergence"]["partial_losses"] == [list(losses) for losses in history.partial_losses]
    paths = [(path["layer"], path["query"], path["key"]) for path in model["circuit"]["paths"]]
    assert paths == [(path.layer, path.query, path.key) for path in WITNESS.circuit]
    assert model["theory"]["least"] == 3
    assert model["problem"]["blocks"] == [3, 2, 1]


def test_tables_are_there_without_scripts(reader, run):
    assert "Table: the paths of the circuit" in reader.text
    assert "Table: validation losses by hop" in reader.text
    stored = Circuit.load(ROOT / "results" / "explorers" / "a" / "circuit.json")
    assert stored.card is not None
    assert stored.imposed is not None
    assert stored.imposed.own is not None
    card = tables(replace(exhibit(run, 0), circuit=stored, emergence=None))[-1]
    assert card.rows[:-1] == card_rows(stored.card)
    assert f"{stored.imposed.own.mean:.3f} with own patterns" in card.rows[-1][1]


def test_sizes_are_reported_and_bounded(run, monkeypatch, tmp_path):
    result = CliRunner().invoke(command, [str(run.path), "--json"])
    sizes = json.loads(result.stdout)
    assert sizes["bytes"] == Path(sizes["path"]).stat().st_size < 1_000_000
    assert sum(sizes["parts"].values()) < sizes["bytes"]
    monkeypatch.setattr(pages, "LARGEST", 1000)
    with pytest.raises(InputError, match=r"the page would be 0\.\d\d MB.*--large"):
        explore([run])
    assert explore([run], tmp_path / "anyway.html", large=True)[0].exists()


def test_a_page_takes_the_place_of_nothing_else(run, tmp_path):
    record, notes = (run.path / "run.json"), tmp_path / "notes.txt"
    notes.write_text("mine")
    before = record.read_bytes()
    for path in (record, notes):
        with pytest.raises(InputError, match=rf"a page's name must end in \.html, got '{path.name}'"):
            explore([run], path)
        result = CliRunner().invoke(command, [str(run.path), "--out", str(path)])
        assert isinstance(result.exception, InputError)
    (tmp_path / "a.html").mkdir()
    for out, why in (("a.html", "is a folder"), ("notes.txt/a.html", "is a file"), (run.path / "a.html", "run folder")):
        with pytest.raises(InputError, match=why):
            explore([run], tmp_path / out)
    for other in ("<p>mine</p>", '<meta name="generator" content="hopscope 0.1.0">the report of a reproduction'):
        (tmp_path / "mine.html").write_text(other)
        with pytest.raises(InputError, match=r"mine\.html is not an explorer of hopscope"):
            explore([run], tmp_path / "mine.html")
    for _ in range(2):  # ours is replaced by ours
        explore([run], tmp_path / "page.html")
    assert (record.read_bytes(), notes.read_text()) == (before, "mine")


def test_a_run_without_circuit_opens_with_its_heads(tmp_path):
    bare = known_run(tmp_path / "bare")
    one = exhibit(bare, 0)
    assert one.circuit is None
    assert [sentence for sentence in one.missing if "hopscope circuit" in sentence]
    model = Reader(build([one]).html).manifest["models"][0]
    assert model["circuit"] is None
    assert model["live"] is not None


def test_a_run_without_checkpoints_opens_with_its_records(run, tmp_path):
    bare = tmp_path / "bare"
    shutil.copytree(run.path, bare)
    shutil.rmtree(bare / "checkpoints")
    one = exhibit(RunFolder(bare), 0)
    assert one.transformer is None
    assert [sentence for sentence in one.missing if "no checkpoint" in sentence]
    model = Reader(build([one]).html).manifest["models"][0]
    assert model["live"] is None
    assert model["emergence"]["steps"] == list(one.emergence.steps)
    for name in ("metrics.jsonl", "circuit.json"):
        (bare / name).unlink()
    with pytest.raises(InputError, match="there is nothing to show"):
        exhibit(RunFolder(bare), 0)


def test_several_models_and_runs(run, tmp_path):
    two = known_run(tmp_path / "two", models=2)
    assert [exhibit.number for exhibit in exhibits([two])] == [0]
    circuit_json(two, two.path / "circuit-1.json", number=1)
    assert [exhibit.name for exhibit in exhibits([two])] == ["two, seed 1"]
    shown = exhibits([run, two])
    assert [exhibit.name for exhibit in shown] == ["<b>run & co, seed 0", "two, seed 1"]
    models = Reader(build(shown).html).manifest["models"]
    assert [model["live"]["weights"] for model in models] == ["m0-weights", "m1-weights"]
    with pytest.raises(InputError, match="must be at most 1, got 2"):
        exhibits([two], 2)


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_explorer(tmp_path):
    build_it = "from hatchling.build import build_wheel; import sys; print(build_wheel(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", build_it, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    with zipfile.ZipFile(tmp_path / done.stdout.split()[-1]) as wheel:
        names = set(wheel.namelist())
    scripts, styles = {*pages.SCRIPTS, *SCRIPTS}, (*pages.STYLES, "stored")
    html = "page.html", "stored.html", "head.html", "circuit.html", "tail.html"
    needed = [*(f"{name}.js" for name in scripts), *(f"{name}.css" for name in styles), *html]
    assert {f"hopscope/explorer/web/{name}" for name in needed} <= names
    assert {f"hopscope/paper/templates/{name}" for name in ("page.html", "page.css", "claims.toml")} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    here = {path.name for path in (ROOT / "src/hopscope/explorer/web").iterdir()}
    assert here == set(needed), "a source that no page holds"


def test_heads_that_write_nothing_are_gone():
    """Numbered layer after layer: the spare heads of a witness are empty; one with a single number is there."""
    made = build_witness(hops=2, spare_heads=2)
    assert _gone(made.transformer) == [1, 2, 4, 5, 7, 8]
    assert _gone(build_witness(hops=2).transformer) == []
    out = made.transformer.blocks[1].attention.out.weight
    with torch.no_grad():
        out[0, out.shape[1] // 3, 0] = 1e-6
    assert _gone(made.transformer) == [1, 2, 5, 7, 8]


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


def test_an_unfinished_run_shows_the_emergence_of_its_circuit(run, tmp_path):
    other = RunFolder(shutil.copytree(run.path, tmp_path / "other"))
    for path in other.path.rglob(f"*{other.schedule.end}*"):
        path.unlink()
    circuit_json(other, other.path / "circuit.json", model=CircuitStore(other).origin(0).model)
    emergence_of_run(other, 0, overwrite=True)
    assert exhibit(other, 0).emergence is not None


def test_an_emergence_of_another_circuit_is_not_shown(run, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(run.path, other)
    record = json.loads((other / "circuit.json").read_text())
    circuit_json(RunFolder(other), other / "circuit.json", paths=record["paths"][:-1])
    one = exhibit(RunFolder(other), 0)
    assert one.emergence is None
    assert "is of another circuit" in " ".join(one.missing)


def test_the_page_of_a_stored_circuit_has_its_numbers_and_names_what_is_missing(run, tmp_path):
    record = tmp_path / "ten.json"  # as `hopscope circuit MODEL --task ten.jsonl --out FOLDER` writes it
    record.write_bytes((ROOT / "results" / "explorers" / "a" / "circuit.json").read_bytes())
    assert CliRunner().invoke(command, [str(tmp_path)]).stdout == f"{tmp_path / 'ten.html'}\n"
    circuit, found = Circuit.load(record), Reader((tmp_path / "ten.html").read_text())
    losses = [path["without"]["mean"] for path in found.manifest["paths"]]
    assert losses == [path.without.mean for path in circuit.paths]
    assert found.manifest["roles"] == ["x2>", ">x3", "x1>", ">x2", "x0>", ">x1", "x0?"]
    assert "not their tokens" in found.text
    for given, words in (([str(record), "--model", "1"], "leave --model out"), ([str(run.path), str(record)], "page")):
        assert words in str(CliRunner().invoke(command, given).exception)
    named = replace(circuit, text=Asked("<b>m & co", "ioi", 0.25, 0.9))
    assert all(tag != "b" for tag, _ in Reader(page_of(named).html).elements)
