"""The block of Python with which docs/api.md begins: each of its lines runs as it is written there."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest
from known_run import circuit_json, known_run, witness_shape
from plain_gpt2 import PlainGPT2, parts

import hopscope as hs
from examples.text_model.recipe import TextModelRecipe
from examples.text_model.training import make_model, publish
from hopscope.model.initial_weights import initialise

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
LINES = re.findall(r"```py\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)[0].splitlines()
OF_A_CIRCUIT = ("circuit.faithfulness_curve()", "run.emergence()")
"""Calls that need a circuit, which a model of two steps has not."""

QUICK = hs.CertificateConfig(sequences=16, deciding=16, few=8, draws=4, halves=8)


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the page takes for granted, and a recipe of two steps."""
    pytest.importorskip("transformers", reason="the extra `llm` is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hopscope.paper.reproduce.reproduce", create_autospec(hs.reproduce))
    monkeypatch.setattr(hs.CertificateConfig, "of", lambda proof: QUICK)
    few = replace(hs.recipes.LAPTOP, steps=2, final_steps=1, batch_size=4, checkpoint_every=1)
    monkeypatch.setattr(hs.recipes, "LAPTOP", few)
    publish(make_model(TextModelRecipe()), tmp_path / "folder")
    ours = hs.Transformer(few.architecture(hs.RetrievalProblem(hops=3)))
    initialise(ours, [0])
    gpt = PlainGPT2(ours)
    return {"hs": hs, "my_gpt": gpt, "my_parts": parts}


@pytest.mark.slow
def test_every_line_of_the_api_page_runs(names: dict[str, Any]) -> None:
    for line in LINES:
        if line.startswith(OF_A_CIRCUIT):
            with pytest.raises(hs.InputError, match=r"has no circuit|was not measured"):
                exec(line, names)
        else:
            exec(line, names)
    assert (names["model"].seed, names["circuit"]) == (2, hs.Circuit.load("c.json"))
    assert hs.theory.min_layers(hops=5) == hs.theory.depths(5).causal == 4
    hs.reproduce.assert_called_once_with("laptop")


def test_lines_about_a_circuit_run_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hs.Recipe, "architecture", witness_shape)
    folder = known_run(tmp_path / "run")
    circuit_json(folder, folder.path / "circuit.json")
    run = hs.Run(folder.path)
    circuit = run[0].check(hs.Circuit.load(folder.path / "circuit.json"), proof=QUICK)
    for line in OF_A_CIRCUIT:
        assert any(written.startswith(line) for written in LINES)
        exec(line, {"run": run, "circuit": circuit})
    assert circuit.plot().axes
    assert len(run.emergence().paths) == len(circuit.paths)
