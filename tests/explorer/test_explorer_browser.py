"""The explorer in a browser, from `file://`: what is drawn, what keys do, that live numbers are Python's."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from explorer_pages import Tab, witness_recipes

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.evaluate.ablations import UNIFORM
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator, single
from hopscope.emergence.history import Emergence
from hopscope.explorer.arrays import batch_of, half
from hopscope.explorer.static import births

pytestmark = pytest.mark.xdist_group("browser")

ARROWS = "return document.querySelectorAll('#circuit .arrow').length"
DONE = "return document.querySelector('.progress').dataset.done === 'true'"
LIVE = "return document.querySelector('[data-live=all]').textContent"


def test_it_opens_without_a_word_and_asks_nobody(tab, page):
    tab.open(page)
    tab.until(DONE)
    assert tab.logs() == []
    assert {url.split(":")[0] for url in tab.requests()} <= {"file", "data", "blob", "about"}
    tab.ask("const image = new Image(); image.src = 'http://localhost:9/x.png'; document.body.append(image)")
    tab.until("return performance.now() > 0")
    refused = tab.logs()
    assert [line for line in refused if "Content Security Policy" in line], refused  # and this test can fail


@pytest.mark.slow
def test_there_are_as_many_arrows_as_paths_and_births_in_their_order(tab, page, run):
    circuit, emergence = Circuit.load(run.path / "circuit.json"), Emergence.load(run.path / "emergence.json")
    tab.open(page)
    assert tab.ask(ARROWS) == len(circuit.paths)
    shown = tab.ask("return [...document.querySelectorAll('.strip')].map((strip) => Number(strip.dataset.path))")
    assert shown == births(circuit, emergence)


@pytest.mark.slow
def test_the_playhead_moves_and_the_inspector_tells_the_records_numbers(tab, page, run):
    emergence = Emergence.load(run.path / "emergence.json")
    tab.open(page, "v1.m0.t0.p2")
    value = "return document.querySelector('input[type=range]').value"
    assert tab.ask(value) == "0"
    assert f"{emergence.paths[2].attention[0]:.2f}" in tab.ask("return document.querySelector('.about dd').textContent")
    tab.press("\ue010")  # End
    assert tab.ask(value) == str(len(emergence.steps) - 1)
    assert "step 600" in tab.ask("return document.querySelector('input[type=range]').getAttribute('aria-valuetext')")
    assert f"{emergence.paths[2].attention[-1]:.2f}" in tab.ask("return document.querySelector('.about').textContent")
    tab.press("\ue012")  # Left
    assert tab.ask(value) == str(len(emergence.steps) - 2)


@pytest.mark.slow
@pytest.mark.parametrize("keys", ["1", "25"])
def test_a_key_cuts_and_the_live_loss_is_pythons(tab, page, run, keys):
    circuit, emergence = Circuit.load(run.path / "circuit.json"), Emergence.load(run.path / "emergence.json")
    with witness_recipes():
        model = half(single(run.transformer(), 0))
    evaluator = VectorEvaluator(model, run.problem, batch_of(run.problem))
    cut = [circuit.paths[births(circuit, emergence)[int(key) - 1]] for key in keys]
    (expected,) = evaluator.mse([{one.path.row: UNIFORM for one in cut}])
    tab.open(page)
    for key in keys:
        tab.press(key)
    assert tab.ask("return document.querySelectorAll('#circuit .arrow.cut').length") == len(keys)
    tab.until(DONE)
    shown = float(tab.ask(LIVE))
    assert shown == pytest.approx(expected, abs=1e-3)
    assert shown > 0.05, "a cut that costs nothing shows nothing"
    tab.press("0")
    assert tab.ask("return document.querySelectorAll('#circuit .arrow.cut').length") == 0


@pytest.mark.slow
def test_the_view_survives_a_reload_and_goes_into_a_copy(tab, page, tmp_path):
    tab.open(page, "v1.m0.t3.p1.x2.a1")
    tab.driver.refresh()
    tab.until("return document.documentElement.dataset.ready")
    assert tab.ask("return location.hash") == "#v1.m0.t3.p1.x2.a1"
    copy = save(tab, "copy", tmp_path / "copy.html")
    assert copy.read_text().count("<html") == page.read_text().count("<html")
    tab.open(copy)
    assert tab.ask("return location.hash") == "#v1.m0.t3.p1.x2.a1"
    assert tab.ask("return document.querySelectorAll('#circuit .arrow.cut').length") > 0
    assert tab.logs() == []


def save(tab: Tab, words: str, path: Path) -> Path:
    """What the entry of the menu with those words saves, taken where the link to it is made."""
    tab.ask(
        "window.saved = {}; if (!window.make) { window.make = URL.createObjectURL; URL.createObjectURL = (blob) => {"
        "blob.text().then((text) => (window.saved.text = text)); return window.make(blob); }; }"
        "HTMLAnchorElement.prototype.click = () => {};"
        "const all = [...document.querySelectorAll('.menu div button')];"
        "all.find((one) => one.textContent.includes(arguments[0])).click()",
        words,
    )
    tab.until("return window.saved.text")
    path.write_text(tab.ask("return window.saved.text"))
    return path


@pytest.mark.slow
def test_exports_stand_alone(tab, page, run, tmp_path):
    tab.open(page)
    drawing = save(tab, "Circuit (SVG)", tmp_path / "circuit.svg").read_text()
    for word in (" class=", " style=", "<style", "currentColor", "var(", "http://localhost"):
        assert word not in drawing, word
    assert drawing.count("<path") >= len(Circuit.load(run.path / "circuit.json").paths) * 2
    rows = list(csv.DictReader(io.StringIO(save(tab, "CSV", tmp_path / "paths.csv").read_text())))
    emergence = Emergence.load(run.path / "emergence.json")
    assert len(rows) == len(emergence.paths) * len(emergence.steps)
    assert float(rows[0]["attention"]) in [path.attention[0] for path in emergence.paths]
    tikz = save(tab, "TikZ", tmp_path / "circuit.tex").read_text()
    assert tikz.count("\\draw[->") == len(emergence.paths)
    assert tikz.count("{") == tikz.count("}")
    assert json.loads(save(tab, "JSON", tmp_path / "all.json").read_text())["schema"] == 1


@pytest.mark.slow
def test_everything_can_be_reached_by_keys(tab, page):
    tab.open(page)
    tab.ask("document.querySelector('#circuit .arrow').focus()")
    tab.press("\ue007")  # Enter
    chosen = "return document.querySelectorAll('#circuit .arrow.chosen').length"
    assert tab.ask(chosen) == 1
    assert tab.ask("return document.activeElement.classList.contains('arrow')"), "the focus stays through a redraw"
    tab.press("\ue00c")  # Escape
    assert tab.ask(chosen) == 0
    tab.press("n")
    assert tab.ask("return document.querySelector('.story [aria-current]').textContent") == "1The task"
    named = "one.id === 'app' || one.getAttribute('aria-label') || one.textContent.trim()"
    every = "[...document.querySelectorAll('button, input, select, [tabindex]')]"
    assert tab.ask(f"return {every}.filter((one) => !({named})).length") == 0
    assert tab.ask(f"return {every}.length") > 30


@pytest.mark.slow
@pytest.mark.parametrize(
    ("view", "width", "dark"),
    [
        ("", 400, False),
        ("", 1280, True),
        ("v1.m0.t6.a1.v3.h1", 400, True),
        ("v1.m0.t3.p1.q2.x3.c0-6", 400, False),
        ("v1.m0.t3.p1.q2.x3.c0-6", 1280, True),
    ],
)
def test_nothing_overflows(tab, page, view, width, dark):
    tab.open(page, view, width=width, dark=dark)
    assert tab.ask("return document.documentElement.scrollWidth") <= width
    ground = tab.ask("return getComputedStyle(document.documentElement).backgroundColor")
    assert (ground == "rgb(21, 23, 26)") == dark
    assert tab.logs() == []


@pytest.mark.slow
def test_without_scripts_the_figures_are_there(tab, page):
    tab.open(page, scripts=False)
    shown = tab.tell("DOM.getDocument", depth=-1)["root"]["nodeId"]
    found = tab.tell("DOM.querySelectorAll", nodeId=shown, selector=".static figure svg")["nodeIds"]
    assert len(found) == 2
    for node in found:
        assert tab.tell("DOM.getBoxModel", nodeId=node)["model"]["height"] > 100
    hidden = tab.tell("DOM.querySelector", nodeId=shown, selector="#app[hidden]")["nodeId"]
    assert hidden


@pytest.mark.slow
def test_in_the_frame_of_a_notebook_it_draws_and_computes(tab, page, run):
    import hopscope as hs

    with witness_recipes():
        (page.parent / "notebook.html").write_text(hs.Run(run.path)._repr_html_())
    tab.driver.get((page.parent / "notebook.html").as_uri())
    tab.driver.switch_to.frame(0)
    tab.until("return document.documentElement.dataset.ready")
    tab.until(DONE)
    assert tab.ask(ARROWS) == len(Circuit.load(run.path / "circuit.json").paths)
    tab.driver.switch_to.default_content()
    assert not [line for line in tab.logs() if "Error" in line]
