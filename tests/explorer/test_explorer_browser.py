"""The explorer in a browser, from `file://`: what is drawn and printed, mouse and keys, live numbers as Python's."""

from __future__ import annotations

import base64
import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from explorer_pages import Tab, witness_recipes

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.evaluate.ablations import UNIFORM
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.cli.folder_verbs import explore as command
from hopscope.emergence.history import Emergence
from hopscope.explorer.arrays import batch_of, half
from hopscope.explorer.tables import births
from hopscope.model.fast import single

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
def test_every_path_has_an_arrow_and_strips_are_in_order_of_birth(tab, page, run):
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
    (expected,) = evaluator.mse([{path.path.row: UNIFORM for path in cut}])
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
def test_without_scripts_the_tables_are_there(tab, page):
    tab.open(page, scripts=False)
    shown = tab.tell("DOM.getDocument", depth=-1)["root"]["nodeId"]
    found = tab.tell("DOM.querySelectorAll", nodeId=shown, selector=".static summary")["nodeIds"]
    assert len(found) == 3
    for node in found:
        assert tab.tell("DOM.getBoxModel", nodeId=node)["model"]["height"] > 10
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


DRAWN = "return document.documentElement.dataset.drawn"
HASH = "return location.hash"
SLIDER = "input[type=range]"

ENTER, SPACE, RIGHT, HOME, END = "\ue007", " ", "\ue014", "\ue011", "\ue010"

# Time passes when the test says so: a tick of the player is `window.tick()`.
BY_HAND = "window.setInterval = (act) => ((window.tick = act), 1)"


class Mouse:
    """The left button, over the first element of the page that a selector finds."""

    def __init__(self, tab: Tab, selector: str) -> None:
        self.tab = tab
        box = (
            "const one = document.querySelector(arguments[0]); one.scrollIntoView({ block: 'center' });"
            "const { left, top, width, height } = one.getBoundingClientRect(); return [left, top, width, height]"
        )
        self.left, self.top, self.width, self.height = tab.ask(box, selector)

    def do(self, kind: str, across: float = 0.5) -> None:
        """`Pressed`, `Moved` or `Released`, so far across the element."""
        at: dict[str, Any] = {"x": self.left + across * self.width, "y": self.top + self.height / 2}
        buttons = 0 if kind == "Released" else 1
        self.tab.tell(
            "Input.dispatchMouseEvent", type=f"mouse{kind}", button="left", buttons=buttons, clickCount=1, **at
        )

    def click(self) -> None:
        self.do("Pressed")
        self.do("Released")


def after(tab: Tab, act: str) -> None:
    """Do something and wait until it is drawn."""
    before = tab.ask(DRAWN)
    tab.ask(act)
    tab.until(f"{DRAWN} !== '{before}'")


@pytest.mark.slow
def test_the_slider_is_dragged_along_all_checkpoints(tab: Tab, page: Path) -> None:
    tab.open(page)
    tab.until(DONE)
    mouse = Mouse(tab, SLIDER)
    mouse.do("Pressed", 0.02)
    values = []
    for across in (0.2, 0.4, 0.6, 0.8):
        before = tab.ask(DRAWN)
        mouse.do("Moved", across)
        tab.until(f"{DRAWN} !== '{before}'")
        values.append(int(tab.ask(f"return document.querySelector('{SLIDER}').value")))
        assert f".t{values[-1]}" in tab.ask(HASH)
    mouse.do("Released", 0.8)
    assert values == [1, 2, 4, 5]
    assert tab.ask("return document.activeElement.type") == "range"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("selector", "effect"),
    [
        ("#time-controls button", "document.querySelector('#time-controls button').textContent === 'Play'"),
        ("#circuit .mark:last-child .badge", "document.querySelectorAll('#circuit .arrow.chosen').length === 1"),
        ("#heads canvas", "location.hash.includes('.h')"),
        ("#losses .group button:last-child", "location.hash.includes('.b1')"),
        ("#circuit-controls > button:nth-child(3)", "location.hash.includes('.c0-2')"),
    ],
)
def test_a_slow_click_counts_while_it_plays(tab: Tab, page: Path, selector: str, effect: str) -> None:
    tab.open(page, "v1.m0.t0")
    tab.until(DONE)
    tab.ask(BY_HAND)
    after(tab, "document.querySelector('#time-controls button').click(); window.tick()")
    assert tab.ask("return document.querySelector('#time-controls button').textContent") == "Pause"
    mouse = Mouse(tab, selector)
    assert not tab.ask(f"return {effect}")
    mouse.do("Pressed")
    after(tab, "window.tick()")
    mouse.do("Released")
    tab.until(f"return {effect}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("selector", "key"),
    [
        ("#time .strip:nth-child(3)", ENTER),
        ("#time .strip:nth-child(3)", SPACE),
        ("#circuit .arrow:nth-child(3)", SPACE),
        ("#circuit-controls > button:nth-child(2)", ENTER),
        ("#circuit-controls > button:nth-child(3)", ENTER),
        ("#losses .group button:last-child", SPACE),
        ("#heads-controls button:last-child", ENTER),
    ],
)
def test_the_focus_stays_where_a_key_was_pressed(tab: Tab, page: Path, selector: str, key: str) -> None:
    tab.open(page)
    tab.until(DONE)
    before = tab.ask(HASH)
    tab.ask("(window.focused = document.querySelector(arguments[0])).focus()", selector)
    tab.press(key)
    assert tab.ask(HASH) != before, "the key does something"
    assert tab.ask("return document.activeElement === window.focused")
    tab.press("1")  # and when live results arrive
    tab.until(DONE)
    tab.press(HOME)  # and when arrows change their order
    assert tab.ask("return document.activeElement === window.focused && window.focused.isConnected")


BRIGHTEST = """(() => {
  const one = document.querySelector("#heads canvas");
  const { data } = one.getContext("2d").getImageData(0, 0, one.width, one.height);
  return data.filter((value, i) => i % 4 === 0 && data[i + 3] === 255).reduce((a, b) => Math.max(a, b), 0);
})()"""
"""Of the canvas where it is painted, its red: white on paper, the ink's of the dark palette on a dark screen."""
TOGGLE = "document.querySelector('[aria-label=\"Light or dark\"]').click()"


@pytest.mark.slow
@pytest.mark.parametrize("toggled", [False, True])
def test_it_is_printed_light_and_dark_again_after(tab: Tab, page: Path, toggled: bool) -> None:
    tab.open(page, dark=not toggled)
    if toggled:
        tab.ask(TOGGLE)
    tab.until(f"return {BRIGHTEST} < 240")
    tab.ask(f"addEventListener('beforeprint', () => (window.printed = {BRIGHTEST}))")
    pdf = base64.b64decode(tab.tell("Page.printToPDF")["data"])
    assert pdf.startswith(b"%PDF")
    assert tab.ask("return window.printed") == 255
    tab.until(f"return {BRIGHTEST} < 240")
    assert tab.ask("return document.documentElement.dataset.theme || ''") == ("dark" if toggled else "")


def test_a_language_models_circuit_is_cut_path_by_path(tab: Tab, tmp_path: Path) -> None:
    stored = Path(__file__).parents[2] / "results" / "pretrained" / "smollm2-induction"
    done = CliRunner().invoke(command, [str(stored), "--out", str(tmp_path / "c.html")])
    assert done.exit_code == 0, done.output
    circuit = Circuit.load(stored / "circuit.json")
    tab.open(tmp_path / "c.html", width=400, dark=True)
    assert tab.logs() == []
    assert {url.split(":")[0] for url in tab.requests()} <= {"file", "data", "blob", "about"}
    assert tab.ask("return document.documentElement.scrollWidth") <= 400
    assert tab.ask(ARROWS) == len(circuit.paths) + len(circuit.helpers)
    text = "return document.body.textContent"
    for known in (*(check.says for check in circuit.checks.values()), "roles of the prompts, not their tokens"):
        assert known in tab.ask(text)
    for number, path in enumerate(circuit.paths):
        tab.ask(f"document.querySelector('#circuit .arrow[data-path=\"{number}\"]').focus()")
        tab.press("\ue007")  # Enter
        tab.press("x")
        assert tab.ask("return document.querySelectorAll('#circuit .arrow.cut').length") == 1
        shown = tab.ask("return document.querySelector('[data-loss=cut]').textContent")
        low, high = path.without.interval
        assert shown == f"{path.without.mean:.3f}{low:.3f} to {high:.3f}"
    tab.press("0")
    assert tab.ask("return document.querySelectorAll('#circuit .arrow.cut').length") == 0
    tab.ask("document.querySelector('[data-key=\"L24.H8\"]').focus()")
    tab.press(ENTER)
    assert "layer 24 head 8" in tab.ask("return document.querySelector('#inspector').textContent")
    for _ in range(3):
        tab.press("\ue012")  # Left: a row fewer
    rows, share = circuit.faithfulness_curve().points[len(circuit.rows) - 3]
    assert f"its last {rows} rows{share:.0%} of the way".replace(" of", "of") in tab.ask(
        "return document.querySelector('#losses').textContent"
    )
    assert tab.ask("return document.querySelectorAll('#circuit .arrow.cut').length") == 3
