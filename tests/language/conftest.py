"""The planted language model as a folder, with its circuit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from planted_text import planted

from examples.text_model.training import publish
from hopscope.circuits.circuit import Circuit
from hopscope.cli import program


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The planted model as a folder, its circuit found by the verb."""
    made = tmp_path_factory.mktemp("models") / "planted"
    publish(planted(), made)
    asked = ["circuit", str(made), "--formulation", "equations", "--hops", "1", "--effort", "quick", "--json"]
    done = CliRunner().invoke(program, asked, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["certified"]
    return made


@pytest.fixture
def found(folder: Path) -> Circuit:
    """What the search finds in the planted model."""
    return Circuit.load(folder / "circuits" / "equations-1-hops.json")
