"""One browser, one run and one page of it for all tests of the explorer in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from explorer_pages import Tab, browser, explored, witness_recipes

from hopscope.explorer.page import explore
from hopscope.training.run import RunFolder


@pytest.fixture(scope="session")
def tab() -> Iterator[Tab]:
    """Who asks for it is in the xdist group `browser`, or each worker would start one."""
    driver = browser()
    yield Tab(driver)
    driver.quit()


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Not to be changed."""
    with witness_recipes():
        return explored(tmp_path_factory.mktemp("explored") / "run")


@pytest.fixture(scope="session")
def page(run: RunFolder) -> Path:
    with witness_recipes():
        return explore([run])[0].resolve()
