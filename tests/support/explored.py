"""A run to explore: the witness of three hops switched on layer by layer, its circuit and its emergence beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from known_run import circuit_json, known_run, witness_shape

from hopscope.emergence.track import emergence_of_run
from hopscope.training.recipe import Recipe
from hopscope.training.run import RunFolder


@contextmanager
def witness_recipes() -> Iterator[None]:
    """Recipes have the witness's shape here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recipe, "architecture", witness_shape)
        yield


def explored(path: Path) -> RunFolder:
    """The run, followed through its checkpoints. Call it under `witness_recipes`."""
    run = known_run(path)
    certificate = {
        "sufficiency": {"passed": True, "says": "0.01 <b>& less</b>"},
        "outside": {"passed": False, "says": ""},
    }
    circuit_json(run, path / "circuit.json", certificate=certificate)
    emergence_of_run(run)
    return RunFolder(path)
