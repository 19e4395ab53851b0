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
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from explored import explored, witness_recipes
from known_run import WITNESS, circuit_json, known_run

import hopscope as hs
from hopscope.cli.explore import command
from hopscope.emergence.history import Emergence
from hopscope.emergence.maps_over_time import MapsOverTime
from hopscope.errors import InputError
from hopscope.explorer import page as pages
from hopscope.explorer.arrays import Chunk, unpack
from hopscope.explorer.gather import exhibit, exhibits
from hopscope.explorer.page import build, explore
from hopscope.explorer.story import story
from hopscope.training.run import RunFolder
from hopscope.training.run_records import ModelResult, Result

ROOT = Path(__file__).parents[2]


class Reader(HTMLParser):
    """Elements in order, data blocks by id or chunk name, and text outside scripts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.blocks: dict[str, str] = {}
        self.heads: dict[str, str] = {}
        self.text = ""
        self._inside: str | None = None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.elements.append((tag, given))
        self._inside = (given.get("data-chunk") or given.get("id") or tag) if tag in ("script", "style") else None
        if given.get("data-chunk"):
            self.heads[given["data-chunk"]] = given["data-head"]

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside:
            self.blocks[self._inside] = self.blocks.get(self._inside, "") + data
        else:
            self.text += data

    def array(self, name: str) -> np.ndarray:
        return unpack(Chunk(**{**json.loads(self.heads[name]), "text": self.blocks[name]}))


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


def told(reader: Reader) -> dict:
    return json.loads(reader.blocks["manifest"])


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


def test_the_same_inputs_give_the_same_bytes(run):
    assert build(exhibits([run])).html == build(exhibits([RunFolder(run.path)])).html


def test_text_of_a_run_cannot_become_markup(reader):
    assert told(reader)["models"][0]["name"] == "<b>run & co, seed 0"
    assert "<b>run & co, seed 0" in reader.text
    assert "0.01 <b>& less</b>" in reader.text
    assert all(tag != "b" for tag, _ in reader.elements)
    assert not re.search(r"[<>&\u2028\u2029]", reader.blocks["manifest"])


def test_arrays_in_the_page_are_those_of_the_records(run, reader):
    record = MapsOverTime.load(run.path / "emergence-maps.json")
    maps = reader.array("m0-maps")
    for number in range(len(record.steps)):
        assert (maps[number] == np.rint(record.frame(number).numpy() * 255)).all()
    state = run.transformer().state_dict()
    live = told(reader)["models"][0]["live"]
    assert live["names"] == [[name, weight.numel()] for name, weight in state.items()]
    flat = np.concatenate([weight.numpy().reshape(-1) for weight in state.values()])
    stored = reader.array("m0-weights").astype(np.float32)
    assert np.allclose(stored, flat, rtol=1e-3, atol=1e-6)
    losses = reader.array("m0-metrics")
    assert losses.shape == (6, 4)
    assert (losses[:, 1:] == run.metrics.partial_losses[:, 0].astype(np.float32)).all()


def test_numbers_are_the_records(run, reader):
    model, history = told(reader)["models"][0], Emergence.load(run.path / "emergence.json")
    assert [path["crossing"]["step"] for path in model["emergence"]["paths"]] == [
        path.crossing.step for path in history.paths
    ]
    assert model["emergence"]["partial_losses"] == [list(losses) for losses in history.partial_losses]
    assert [(path["layer"], path["query"], path["key"]) for path in model["circuit"]["paths"]] == [
        (path.layer, path.query, path.key) for path in WITNESS.circuit
    ]
    assert model["theory"]["least"] == 3
    assert model["problem"]["blocks"] == [3, 2, 1]


def test_figures_and_tables_are_there_without_scripts(reader):
    drawings = [given["aria-label"] for tag, given in reader.elements if tag == "svg"]
    assert drawings == [
        f"Circuit of seed 0: {len(WITNESS.circuit)} paths",
        "Validation loss by hop over training steps",
    ]
    assert "Table: the paths of the circuit" in reader.text
    assert "Table: losses by hop at the checkpoints (n = 32)" in reader.text


def test_the_story_has_this_runs_numbers_and_says_what_failed(run):
    one = exhibit(run, 0)
    steps = story(one)
    assert [step["title"] for step in steps] == [
        "The task", "Nothing happens", "The first head", "The others, in order", "Cut it yourself",
    ]  # fmt: skip
    first = min(path.crossing.step for path in one.emergence.paths)
    assert f"crosses 0.5 at step {first:,.0f}" in steps[2]["caption"]
    assert steps[2]["holds"] is True
    assert steps[3]["holds"] is one.emergence.order.one_by_one
    early = replace(one.emergence, plateau=replace(one.emergence.plateau, left=10))
    assert story(replace(one, emergence=early))[1]["holds"] is False
    assert "Halfway, the mean attention of 3 of 6 paths is above 0.5" in steps[1]["caption"]
    idle = [replace(path, attention=(0.5,) * len(path.attention)) for path in one.emergence.paths]
    nothing = story(replace(one, emergence=replace(one.emergence, paths=tuple(idle))))[1]
    assert "Halfway, the mean attention of no path is above 0.5" in nothing["caption"]
    assert len(story(replace(one, emergence=None))) == 2


def test_sizes_are_told_and_bounded(run, monkeypatch):
    result = CliRunner().invoke(command, [str(run.path), "--json"])
    said = json.loads(result.stdout)
    assert said["bytes"] == Path(said["path"]).stat().st_size < 1_000_000
    assert sum(said["parts"].values()) < said["bytes"]
    monkeypatch.setattr(pages, "LARGEST", 1000)
    with pytest.raises(InputError, match=r"the page would be 0\.\d\d MB.*--large"):
        explore([run])
    assert explore([run], run.path / "anyway.html", large=True)[0].exists()


def test_a_page_takes_the_place_of_nothing_else(run, tmp_path):
    record, notes = (run.path / "run.json"), tmp_path / "notes.txt"
    notes.write_text("mine")
    before = record.read_bytes()
    for path in (record, notes):
        with pytest.raises(InputError, match=rf"a page's name must end in \.html, got '{path.name}'"):
            explore([run], path)
        told = CliRunner().invoke(command, [str(run.path), "--out", str(path), "--keepsake", str(tmp_path / "small")])
        assert isinstance(told.exception, InputError)
    (tmp_path / "a.html").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        explore([run], tmp_path / "a.html")
    assert (record.read_bytes(), notes.read_text()) == (before, "mine")
    assert not (tmp_path / "small").exists()


def test_a_run_without_circuit_opens_with_its_heads(tmp_path):
    bare = known_run(tmp_path / "bare")
    one = exhibit(bare, 0)
    assert one.circuit is None
    assert [sentence for sentence in one.missing if "hopscope circuit" in sentence]
    model = told(Reader(build([one]).html))["models"][0]
    assert model["circuit"] is None
    assert model["live"] is not None


def test_a_run_without_checkpoints_opens_with_its_records(run, tmp_path):
    kept = tmp_path / "kept"
    shutil.copytree(run.path, kept)
    shutil.rmtree(kept / "checkpoints")
    one = exhibit(RunFolder(kept), 0)
    assert one.transformer is None
    assert [sentence for sentence in one.missing if "no checkpoint yet" in sentence]
    model = told(Reader(build([one]).html))["models"][0]
    assert model["live"] is None
    assert model["emergence"]["steps"] == list(one.emergence.steps)
    for name in ("metrics.jsonl", "circuit.json"):
        (kept / name).unlink()
    with pytest.raises(InputError, match="there is nothing to show"):
        exhibit(RunFolder(kept), 0)


@pytest.mark.parametrize(
    ("name", "damage", "words"),
    [
        ("emergence.json", lambda text: text[:-40], "emergence.json is not readable"),
        ("emergence.json", lambda text: text.replace('"seed": 0', '"seed": 1', 1), "emergence.json is damaged"),
        ("emergence-maps.json", lambda text: text.replace('"layers": 3', '"layers": 2'), "maps.json is damaged"),
        ("circuit.json", lambda text: text.replace('"bar": 0.05', '"bar": "low"'), "circuit.json is damaged"),
        ("circuit.json", lambda text: text.replace('"seed": 0', '"seed": 9'), "The circuit beside the run is of an"),
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
    assert (words in " ".join(one.damaged)) == ("is of an" not in words)


def test_damage_is_said_in_the_shell_too_with_the_path_as_it_is_written(run, tmp_path, monkeypatch):
    """Who writes a page from a script never sees what the page says."""
    shutil.copytree(run.path, tmp_path / "hurt")
    (tmp_path / "hurt" / "circuit.json").write_bytes(b"\xff\xfe")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(command, ["hurt"])
    assert done.exit_code == 0
    assert done.stdout.strip() == "hurt/explorer.html"
    assert "left out: hurt/circuit.json is not readable" in done.stderr


def test_without_metrics_the_steps_are_those_of_the_result(run, tmp_path):
    """The recipe's are only the most, where a run ends once it has learned."""
    finished = RunFolder(shutil.copytree(run.path, tmp_path / "finished"))
    last = max(finished.checkpoints)
    finished.finish(Result(last, 64, (ModelResult(0, 0, "0", 0.1, (0.1,) * 3, 0.2, 0.1, (0.1,) * 3),)))
    (finished.path / "metrics.jsonl").write_text("{}")
    assert exhibit(RunFolder(finished.path), 0).steps == last


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.write_text(path.read_text()[:-40]), "result.json is not readable"),
        (lambda path: path.write_text("[]"), "result.json is not the result of a finished run"),
        (lambda path: (path.unlink(), path.mkdir()), "result.json"),
        (lambda path: None, "result.json is not of the models of this run"),
        (None, ""),
    ],
)
def test_a_damaged_result_is_left_out_and_said(run, tmp_path, damage, words):
    finished = RunFolder(shutil.copytree(run.path, tmp_path / "finished"))
    seed = 7 if "models" in words else finished.seeds[0]
    finished.finish(Result(600, 64, (ModelResult(0, seed, "0", 0.1, (0.1,) * 3, 0.2, 0.1, (0.1, 0.2, 0.3)),)))
    if damage is not None:
        damage(finished.path / "result.json")
    one = exhibit(RunFolder(finished.path), 0)
    reader = Reader(build([one]).html)
    if damage is None:
        assert told(reader)["models"][0]["held_out"] == {"n": 64, "loss": 0.2, "partial": [0.1, 0.2, 0.3]}
        assert one.missing == ()
    else:
        assert words in " ".join(one.missing)
        assert words in reader.text
        assert told(reader)["models"][0]["held_out"] is None


def test_a_circuit_of_the_same_seed_and_shape_by_another_recipe_is_not_shown(run, tmp_path):
    """As of a run with other steps or another learning rate, copied here."""
    other = tmp_path / "other"
    shutil.copytree(run.path, other)
    circuit_json(RunFolder(other), other / "circuit.json", model="0123456789abcdef")
    one = exhibit(RunFolder(other), 0)
    assert one.circuit is None
    assert "The circuit beside the run is of another model" in " ".join(one.missing)


def test_an_emergence_of_another_circuit_is_not_shown(run, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(run.path, other)
    record = json.loads((other / "circuit.json").read_text())
    circuit_json(RunFolder(other), other / "circuit.json", paths=record["paths"][:-1])
    one = exhibit(RunFolder(other), 0)
    assert one.emergence is None
    assert "not of this circuit" in " ".join(one.missing)


def test_several_models_and_runs(run, tmp_path):
    two = known_run(tmp_path / "two", models=2)
    assert [one.number for one in exhibits([two])] == [0]
    circuit_json(two, two.path / "circuit-1.json", number=1)
    assert [one.seed for one in exhibits([two])] == [1]
    shown = exhibits([run, two])
    assert [one.name for one in shown] == ["<b>run & co, seed 0", "two, seed 1"]
    models = told(Reader(build(shown).html))["models"]
    assert [model["live"]["weights"] for model in models] == ["m0-weights", "m1-weights"]
    with pytest.raises(InputError, match="model must be from 0 to 1"):
        exhibits([two], 2)
    with pytest.raises(InputError, match="given twice"):
        exhibits([two, RunFolder(two.path)])


def test_a_run_shows_itself_in_a_notebook(run, tmp_path):
    shown = hs.Run(run.path)._repr_html_()
    (frame,) = Reader(shown).elements
    assert frame[1]["srcdoc"].startswith("<!doctype html>")
    assert "allow-scripts" in frame[1]["sandbox"]
    assert hs.Run(run.path).explore(tmp_path / "page.html").read_text() == frame[1]["srcdoc"]


@pytest.mark.slow
def test_the_wheel_holds_every_source(tmp_path):
    build_it = "from hatchling.build import build_wheel; import sys; print(build_wheel(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", build_it, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    with zipfile.ZipFile(tmp_path / done.stdout.split()[-1]) as wheel:
        names = set(wheel.namelist())
    needed = [f"{name}.js" for name in pages.SCRIPTS] + [f"{name}.css" for name in pages.STYLES] + ["page.html"]
    assert {f"hopscope/explorer/web/{name}" for name in needed} <= names
    here = {path.name for path in (ROOT / "src/hopscope/explorer/web").iterdir()}
    assert here == set(needed), "a source that no page holds"


def test_heads_that_training_took_away_are_counted(tmp_path):
    """In the line under the title: of the model shown, and only where heads may go."""
    shown = exhibit(known_run(tmp_path / "run"), 0)
    assert " left)" not in shown.facts
    recipe = replace(shown.run.recipe, prune_every=shown.run.recipe.log_every)
    heads = np.full_like(shown.metrics.heads, 4.0)
    heads[-1, 0] = 3
    run = SimpleNamespace(recipe=recipe, problem=shown.run.problem, plans=shown.run.plans)
    told = replace(shown, run=run, metrics=replace(shown.metrics, heads=heads)).facts
    assert told == shown.facts.replace(", width", " (3 left), width")
