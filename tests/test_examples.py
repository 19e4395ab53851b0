"""The notebooks run from top to bottom, at a few steps, in an empty folder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import hopscope as hs
from examples.text_model.recipe import TextModelRecipe
from examples.text_model.training import make_model, publish

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


def test_there_are_notebooks_and_each_opens_with_its_result():
    assert len(NOTEBOOKS) >= 4
    for notebook in NOTEBOOKS:
        first = json.loads(notebook.read_text())["cells"][0]
        assert "**What came out**" in "".join(first["source"]), notebook.name


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_output_is_stored(notebook):
    cells = json.loads(notebook.read_text())["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if notebook.stem == "language-model":  # its model, before training
        publish(make_model(TextModelRecipe(layers=1, heads=2, d_model=16)), tmp_path / "own")
    few = replace(hs.recipes.LAPTOP, steps=4, final_steps=1, batch_size=4, log_every=1)
    monkeypatch.setattr(hs.recipes, "LAPTOP", few)
    names: dict[str, object] = {}
    for cell in json.loads(notebook.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), notebook.name, "exec"), names)
