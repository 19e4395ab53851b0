"""Records of circuits are read beside the models that they are of, beside no others, and shown as what they are."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hopscope.circuits.circuit import Circuit
from hopscope.errors import InputError
from hopscope.paper.models import ReproductionFolder, StudiedModels, read_models
from hopscope.paper.presets import PAPER_SHORT
from hopscope.paper.section_8 import section
from hopscope.records import content_hash
from hopscope.training.run import RunFolder

STORED = Path(__file__).parents[2] / "results" / "paper-short" / "transformers"
STUDY = PAPER_SHORT.models


def stored(folder: Path, *seeds: int) -> Path:
    """The stored transformers of those seeds."""
    for seed in seeds:
        shutil.copytree(STORED / f"seed-{seed}", folder / STUDY.at / f"seed-{seed}")
    return folder / STUDY.at


def read(folder: Path) -> StudiedModels:
    return read_models(STUDY, ReproductionFolder(folder))


def test_the_circuit_of_another_seed_is_refused_and_kept(tmp_path: Path) -> None:
    folder = stored(tmp_path, 1, 2)
    assert [model.seed for model in read(tmp_path).compared] == [1, 2]
    there = folder / "seed-1" / "circuit.json"
    shutil.copy(folder / "seed-2" / "circuit.json", there)
    with pytest.raises(InputError, match=r"seed-1/circuit\.json belongs to another run.*untouched"):
        read(tmp_path)
    assert there.read_bytes() == (STORED / "seed-2" / "circuit.json").read_bytes()


def test_the_circuit_of_other_weights_of_the_run_is_refused(tmp_path: Path) -> None:
    """It was looked for while the run was still training."""
    folder = stored(tmp_path, 1) / "seed-1"
    run, path = RunFolder(folder), folder / "circuit.json"
    young = content_hash([run.model_hashes[0], 1000])
    replace(Circuit.load(path), model=young).save(path, run.hash)
    with pytest.raises(InputError, match=r"circuit\.json"):
        read(tmp_path)


@pytest.mark.slow
def test_circuits_are_called_certified_only_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    result = read(STORED.parent)
    monkeypatch.setattr(Circuit, "certified", property(lambda circuit: circuit.seed == 1))
    for models, words in ((result.models[:2], "1 certified"), (result.models[:1], "0 certified")):
        shown = section(replace(result, models=models))
        assert shown is not None
        assert f"of 12-layer models, {words} on sequences" in shown.paragraphs[0]


def test_the_report_shows_the_first_circuit_and_its_card(tmp_path: Path) -> None:
    stored(tmp_path, 1)
    result = read(tmp_path)
    circuit = Circuit.load(STORED.parents[1] / "explorers" / "a" / "circuit.json")
    shown = section(replace(result, models=(replace(result.models[0], circuit=circuit),)))
    assert shown is not None
    assert [figure.name for figure in shown.figures] == ["circuit-seed-1", "circuit-seed-1-card"]
