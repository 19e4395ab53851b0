"""The explorer on paper: light whatever the screen is, and nothing beyond the edge."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from explorer_pages import Tab

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
