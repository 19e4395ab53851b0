"""The explorer under the mouse and the keys while it is drawn again: what is held, focused or opened stays so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from explorer_pages import Tab

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]

DONE = "return document.querySelector('.progress').dataset.done === 'true'"
DRAWN = "return document.documentElement.dataset.drawn"
HASH = "return location.hash"
SLIDER = "input[type=range]"

ENTER, SPACE, RIGHT, HOME, END = "\ue007", " ", "\ue014", "\ue011", "\ue010"

# Time passes when the test says so: a tick of the player is `window.tick()`.
BY_HAND = "window.setInterval = (act) => ((window.tick = act), 1)"


class Mouse:
    """The left button, over an element of the page.

    Args:
        tab: that holds the page.
        selector: of the element; the first one there is.
    """

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


@pytest.mark.parametrize(
    ("selector", "key"),
    [
        ("#time .strip:nth-child(3)", ENTER),
        ("#time .strip:nth-child(3)", SPACE),
        ("#circuit .arrow:nth-child(3)", SPACE),
        ("#story li:nth-child(3) button", ENTER),
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
