"""The table of losses in a browser: what is held beside a view, what is cut from, and at which step it is computed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from chromium import Tab
from explored import witness_recipes

from hopscope.emergence.history import Emergence
from hopscope.explorer.page import explore
from hopscope.training.run import RunFolder
from hopscope.training.run_records import ModelResult, Result

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]

DONE = "return document.querySelector('.progress').dataset.done === 'true'"
HEADS = "return [...document.querySelectorAll('.losses thead th')].map((head) => head.textContent)"
LAST = "return [...document.querySelectorAll('.losses tr.all .number')].at(-1).textContent"
RECORDED = "return [...document.querySelectorAll('.losses td:nth-child(2)')].map((cell) => cell.textContent)"
NOTE = "computed at the last checkpoint"


def said(tab: Tab) -> str:
    return str(tab.ask("return document.querySelector('.progress').textContent"))


@pytest.mark.parametrize(
    ("view", "head", "early"),
    [("v1.m0.t6.x0.c0-2-1", "A, end", True), ("v1.m0.t6.x0.c0-6-1", "A", False), ("v1.m0.t6.x0.c0-2", "A", False)],
)
def test_what_is_held_says_when_it_is_of_the_end(
    tab: Tab, page: Path, run: RunFolder, view: str, head: str, early: bool
) -> None:
    tab.open(page, "v1.m0.t6.x1")
    tab.until(DONE)
    cut = tab.ask(LAST)
    tab.open(page, view)
    tab.until(f"{HEADS}.some((head) => head.startsWith('A'))")
    assert tab.ask(HEADS)[-1] == head
    assert (NOTE in said(tab)) == early
    recorded = Emergence.load(run.path / "emergence.json").partial_losses[2]
    expected = cut if view.endswith("-1") else f"{sum(recorded) / len(recorded):.3f}"
    tab.until(f"{LAST} === '{expected}'")


def test_at_the_end_the_record_is_the_runs_own_on_its_many_sequences(tab: Tab, run: RunFolder, tmp_path: Path) -> None:
    finished, end = RunFolder(shutil.copytree(run.path, tmp_path / "finished")), (0.1, 0.2, 0.3)
    finished.finish(Result(600, 4096, (ModelResult(0, run.seeds[0], "0", 0.2, end, 0.2, 0.01, end),)))
    emergence = Emergence.load(run.path / "emergence.json")
    last = len(emergence.steps) - 1
    with witness_recipes():
        page = explore([finished])[0].resolve()
    before = emergence.sequences, emergence.partial_losses[last - 1]
    for checkpoint, (sequences, losses) in {last: (4096, end), last - 1: before}.items():
        tab.open(page, f"v1.m0.t{checkpoint}")
        assert tab.ask(HEADS)[1] == f"recorded, n = {sequences:,}"
        assert tab.ask(RECORDED)[: len(losses)] == [f"{loss:.3f}" for loss in losses]
