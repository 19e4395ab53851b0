"""Records of circuits are read beside the models that they are of, and beside no others."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hopscope.circuits.checks import no_circuit
from hopscope.circuits.circuit import Circuit
from hopscope.errors import InputError
from hopscope.paper.claims import Finding
from hopscope.paper.models import Studied, read_models
from hopscope.paper.presets import PAPER, PAPER_SHORT
from hopscope.paper.section_8 import judge, read
from hopscope.records import content_hash
from hopscope.training.run import RunFolder
from hopscope.training.run_records import hash_of

STORED = Path(__file__).parents[2] / "results" / "paper-short" / "transformers"
SETUPS = PAPER_SHORT.circuits.setups


def stored(folder: Path, *seeds: int, runs: bool) -> Path:
    """The stored transformers of those seeds, with their runs or as records alone."""
    for seed in seeds:
        name = f"seed-{seed}"
        if runs:
            shutil.copytree(STORED / name, folder / name)
        else:
            (folder / name).mkdir(parents=True)
            shutil.copy(STORED / name / "circuit.json", folder / name)
    return folder


def models(folder: Path) -> list[Studied]:
    return list(read_models(SETUPS, folder))


@pytest.mark.parametrize("runs", [True, False])
def test_the_circuit_of_another_seed_is_refused_and_kept(tmp_path: Path, runs: bool) -> None:
    stored(tmp_path, 1, 2, runs=runs)
    assert [model.seed for model in models(tmp_path)] == [1, 2]
    there = tmp_path / "seed-1" / "circuit.json"
    shutil.copy(tmp_path / "seed-2" / "circuit.json", there)
    with pytest.raises(InputError, match=r"seed-1/circuit\.json belongs to another run.*untouched"):
        models(tmp_path)
    assert there.read_bytes() == (STORED / "seed-2" / "circuit.json").read_bytes()


def test_without_its_run_the_circuit_of_another_recipe_is_refused(tmp_path: Path) -> None:
    """Models of a sixth of A's steps and a falling rate, under the names of the paper's own: same shape, same seeds."""
    for name, seed in (("b", 1), ("c", 2)):
        (tmp_path / "transformers" / name).mkdir(parents=True)
        shutil.copy(STORED / f"seed-{seed}" / "circuit.json", tmp_path / "transformers" / name)
    with pytest.raises(InputError, match=r"circuit\.json belongs to another run"):
        read(PAPER.circuits, tmp_path)


def test_the_circuit_of_other_weights_of_the_run_is_refused(tmp_path: Path) -> None:
    """It was looked for while the run was still training."""
    folder = stored(tmp_path, 1, runs=True) / "seed-1"
    run, path = RunFolder(folder), folder / "circuit.json"
    young = content_hash([run.model_hashes[0], 1000])
    replace(Circuit.load(path), model=young).save(path, run.record.content_hash)
    with pytest.raises(InputError, match=r"circuit\.json"):
        models(tmp_path)


class TestThreeModelsThatSolveTheTask:
    """Three by the names of the seeds 1, 2 and 5, each with the circuit of seed 2, of which C8 and C10 hold."""

    @pytest.fixture(autouse=True)
    def certified(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Circuit, "certified", ("natural", "strict"))

    def judged(self, folder: Path, **changed: Mapping[str, Any]) -> dict[str, Finding]:
        """With these changes to records, by name of their model."""
        circuit = Circuit.load(STORED / "seed-2" / "circuit.json")
        for seed in (1, 2, 5):
            path = folder / "transformers" / f"seed-{seed}" / "circuit.json"
            path.parent.mkdir(parents=True)
            (setup,) = (setup for setup in SETUPS if setup.name == path.parent.name)
            itself = {"seed": seed, "model": content_hash([circuit.model, seed])}
            replace(circuit, **itself, **changed.get(f"seed_{seed}", {})).save(path, hash_of(setup))
        return {finding.id: finding for finding in judge(read(PAPER_SHORT.circuits, folder))}

    def test_they_are_as_the_paper_says(self, tmp_path: Path) -> None:
        found = self.judged(tmp_path)
        assert (found["C8"].verdict, found["C10"].verdict) == ("reproduced", "reproduced")

    def test_at_another_bar_they_say_nothing(self, tmp_path: Path) -> None:
        found = self.judged(tmp_path, seed_1={"bar": 0.4}, seed_2={"bar": 0.4}, seed_5={"bar": 0.4})
        assert {found[f"C{number}"].verdict for number in range(7, 12)} == {"not run"}

    def test_a_search_that_was_given_up_is_not_a_circuit_that_is_not_there(self, tmp_path: Path) -> None:
        full = Circuit.load(STORED / "seed-2" / "circuit.json").losses["full"]
        found = self.judged(
            tmp_path,
            seed_1={
                "paths": (), "program": (), "others": (), "helpers": (), "strict": None, "losses": {"full": full},
                "certificate": no_circuit(full, 0.05, 0, rows_left=70),
            },
        )  # fmt: skip
        for claim in ("C8", "C10"):
            assert (found[claim].verdict, found[claim].reason) == ("inconclusive", "1 model whose search was given up")
            assert found[claim].n == 3
