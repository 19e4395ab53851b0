"""The explorer on paper: light whatever the screen is, and nothing beyond the edge."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from chromium import Tab

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]

BRIGHTEST = """(() => {
  const one = document.querySelector("#heads canvas");
  const { data } = one.getContext("2d").getImageData(0, 0, one.width, one.height);
  return data.filter((value, i) => i % 4 === 0 && data[i + 3] === 255).reduce((a, b) => Math.max(a, b), 0);
})()"""
"""Of the canvas where it is painted, its red: white on paper, the ink's of the dark palette on a dark screen."""
TOGGLE = "document.querySelector('[aria-label=\"Light or dark\"]').click()"


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


def test_nothing_is_clipped_on_paper(tab: Tab, page: Path) -> None:
    """Drawn for a window of 1,280 pixels and laid out on paper, of which a page is not told beforehand."""
    tab.open(page, "v1.m0.t6.p1.c0-2", width=1280)
    tab.ask(TOGGLE)
    tab.until(f"return {BRIGHTEST} < 240")
    tab.ask("addEventListener('resize', (event) => event.stopImmediatePropagation(), true)")
    try:
        tab.tell("Emulation.setEmulatedMedia", media="print")
        tab.tell("Emulation.setDeviceMetricsOverride", width=640, height=900, deviceScaleFactor=1, mobile=False)
        ends = "[...document.querySelectorAll('#app canvas, #app svg')].map((one) => one.getBoundingClientRect().right)"
        assert tab.ask(f"return Math.max(...{ends})") <= 640
        assert tab.ask("return document.documentElement.scrollWidth") <= 640
        shown = "return getComputedStyle(document.querySelector(arguments[0])).getPropertyValue(arguments[1])"
        assert tab.ask(shown, "html", "color") == "rgb(34, 37, 42)"
        assert tab.ask(shown, "#heads", "overflow") == "visible"
        assert tab.ask(shown, "#circuit > div", "overflow") == "visible"
    finally:
        tab.tell("Emulation.setEmulatedMedia", media="")
