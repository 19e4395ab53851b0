"""A circuit of a language model over folders of checkpoints: those that are equal are one."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from planted_text import CIRCUIT, planted

import hopscope as hs
from examples.text_model.training import publish
from hopscope.circuits.circuit_parts import Asked, CircuitPath, SearchRecord
from hopscope.circuits.evaluate.ablations import KEEP
from hopscope.cli import program
from hopscope.emergence.language import TEXT_EMERGENCE, follow_checkpoints
from hopscope.errors import InputError
from hopscope.problem.paths import AttentionPath
from hopscope.statistics import Measured

TASK = hs.text("equations", hops=1)


def planted_circuit() -> hs.Circuit:
    """The planted circuit, as a record without checks."""
    paths = [AttentionPath.parse(path, TASK.problem.all_roles) for path in CIRCUIT]
    none = Measured(0.0, (0.0, 0.0))
    return hs.Circuit(
        model="planted", seed=0, number=0, problem=TASK.problem, layers=2, heads=4, max_loss=0.05, losses={},
        search=SearchRecord(), paths=tuple(CircuitPath(path, "keep", 1.0, none, none) for path in paths),
        interventions={path.row: KEEP for path in paths}, text=Asked("planted", "equations", 0.25, 0.9),
    )  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Half of the planted model (its second layer's attention writes nothing), the model, and a copy of it."""
    here, half = tmp_path_factory.mktemp("checkpoints"), planted()
    with torch.no_grad():
        half.transformer.h[1].attn.c_proj.weight.zero_()
    publish(half, here / "half")
    publish(planted(), here / "whole")
    shutil.copytree(here / "whole", here / "copy")
    return [here / name for name in ("half", "whole", "copy")]


def test_a_circuit_is_followed_and_equal_folders_are_measured_once(
    folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, out = tmp_path / "c.json", tmp_path / "emergence.json"
    planted_circuit().save(record)
    asked = ["emergence", *map(str, folders), "--circuit", str(record), "--out", str(out)]
    done = CliRunner().invoke(program, asked, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found = TEXT_EMERGENCE.read(out)
    half, whole, copy = found.checkpoints
    assert copy == replace(whole, folder=str(folders[2]), same_as=str(folders[1]))
    assert f"(the same files as {folders[1]})" in done.output
    assert half.full.accuracy < 0.6
    assert whole.full.accuracy == whole.alone.accuracy == 1
    assert min(whole.attention) > 0.8
    assert whole.change[-1] > 0.3 > abs(half.change[-1])
    assert len(json.loads(out.read_text())["paths"]) == len(CIRCUIT)
    assert out.with_suffix(".png").exists()
    _, attention, _ = hs.plot.checkpoints(found).axes
    drawn = {line.get_label(): list(line.get_ydata()) for line in attention.lines}
    assert drawn == {path: [p.attention[n] for p in found.checkpoints] for n, path in enumerate(found.paths)}


def test_what_cannot_be_followed_is_refused(folders: list[Path], tmp_path: Path) -> None:
    circuit = planted_circuit()
    with pytest.raises(InputError, match="has 2 layers x 4 heads, and the circuit is of a model of 3 x 4"):
        follow_checkpoints(folders, replace(circuit, layers=3), TASK)
    with pytest.raises(InputError, match="no circuit with the roles of equations-2-hops"):
        follow_checkpoints(folders, circuit, hs.text("equations", hops=2))
    stored = str(Path(__file__).parents[2] / "results" / "explorers" / "a" / "circuit.json")

    def refused(*words: Any) -> str:
        return str(CliRunner().invoke(program, ["emergence", *map(str, words)]).exception)

    assert "is a circuit of a run; follow it with" in refused(*folders, "--circuit", stored)
    assert "give one run, or --circuit" in refused(*folders)
    assert "have no run; leave --model out" in refused(*folders, "--circuit", stored, "--model", 1)
    circuit.save(own := tmp_path / "c.json")
    assert "must end in .json, got 'e.png'" in refused(*folders, "--circuit", own, "--out", tmp_path / "e.png")
    asked = "--circuit", own, "--task", "code", "--hops", "2"
    assert "no circuit with the roles of code-2-hops" in refused(*folders, *asked)
