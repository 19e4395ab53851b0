"""The documentation site is built without a warning (as of a page in no table of contents), and fetches nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import hopscope as hs

ROOT = Path(__file__).parents[1]
pytest.importorskip("sphinx", reason='the site is made with pip install "hopscope[docs]"')


pytestmark = pytest.mark.xdist_group("site")  # or each worker would make it


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", folder / "trees", "-b", "html"]
    made = subprocess.run([*command, ROOT / "docs", folder / "html"], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return folder / "html"


@pytest.mark.slow
def test_every_public_name_is_described(site):
    api = (site / "api.html").read_text()
    modules = {"plot", "paper", "theory", "benchmark", "recipes", "statistics", "prompts"}
    missing = {name for name in hs.__all__ if f".{name}</span>" not in api and f">{name}</span>" not in api}
    assert missing <= modules | {"Batch", "Examples"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shape", "most"), [("a", "12 layers × 1 head", 7.0), ("d", "24 layers × 1 head", 5.0)]
)
def test_the_explorers_of_transformers_are_there_with_their_circuits(site, name, shape, most):
    assert f'src="explorers/{name}.html"' in (site / "explorer.html").read_text()
    page = (site / "explorers" / f"{name}.html").read_text()
    assert shape in page
    assert len(page.encode()) < most * 1e6
    assert '"found":true' in page.replace(" ", "")


@pytest.mark.slow
def test_nothing_is_fetched_when_it_is_read(site):
    for page in site.rglob("*.html"):
        loaded = re.findall(r'<(?:script|img|iframe|link)[^>]*(?:src|href)="([^"]+)"', page.read_text())
        assert loaded
        assert not [address for address in loaded if address.startswith(("http", "//"))], page.name
