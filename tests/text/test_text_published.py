"""The five published items, byte for byte, from the structure behind them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from text_reader import solve

from hopscope.problem.text.formulation import Extensions
from hopscope.problem.text.questions import FORMULATIONS, Question, question

PUBLISHED = json.loads((Path(__file__).parent / "golden" / "published.json").read_text())


def frozen(value: object) -> object:
    return tuple(map(frozen, value)) if isinstance(value, list) else value


@pytest.mark.parametrize("name", FORMULATIONS)
def test_published_item_from_its_structure(name: str) -> None:
    published = PUBLISHED[name]
    form = FORMULATIONS[name]
    latent = type(question(name).latent)(**{key: frozen(value) for key, value in published["latent"].items()})
    item = Question(name, form.paper_hops, 4, 0, 0, latent, Extensions())
    assert item.prompt == (Path(__file__).parent / "golden" / f"{name}.txt").read_bytes().decode()
    assert item.answer == published["correct"]
    assert ", ".join(item.acceptable) == published["acceptable"]
    assert solve(item.prompt) == published["correct"]
    assert json.loads(json.dumps(item.record()))["latent"] == json.loads(json.dumps(published["latent"]))


def test_paper_order_of_formulations() -> None:
    assert list(FORMULATIONS) == ["equations", "lives-with", "kingdoms", "functions", "relatives"]
    assert list(PUBLISHED) == list(FORMULATIONS)
