"""`hopscope circuit`: find, show and replace circuits from the command line."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import call as hopscope
from known_run import all_passed, circuit_json, known_run, witness_shape
from small_models import disguised_witness

from hopscope.circuits.checks.card import CertificateConfig
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import SearchRecord
from hopscope.circuits.resume import Search
from hopscope.circuits.search.config import SearchBudget
from hopscope.errors import InputError
from hopscope.lab.model import Model
from hopscope.lab.run import Run, train
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.records import content_hash
from hopscope.training.execution import REFERENCE
from hopscope.training.recipe import Recipe
from hopscope.training.run import RunFolder


def call(*arguments: str) -> int:
    return hopscope("circuit", *arguments)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Two models, hardly trained."""
    recipe = Recipe(
        layers=1, heads=1, d_model=8, steps=1, batch_size=4, mlp=False, validation_size=4, checkpoint_every=1
    )
    return train(
        recipe, RetrievalProblem(hops=1), tmp_path_factory.mktemp("runs") / "run", seeds=(0, 1), execution=REFERENCE
    )


def test_a_model_without_a_circuit_gets_a_record(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(str(run.path)) == 0
    out = capsys.readouterr().out
    assert out.startswith("no circuit: model")
    assert "does not solve the problem" in out
    assert (run.path / "figures" / "maps.png").exists()
    assert not (run.path / "figures" / "circuit.png").exists()
    assert not list(run.path.glob(".circuit*")), "nothing is left of the search"

    assert call(str(run.path), "--json") == 0
    record = json.loads(capsys.readouterr().out)
    there = json.loads((run.path / "circuit.json").read_text())
    assert there.pop("seal")["run"] == run.hash
    assert record == there
    assert (record["found"], record["paths"], record["schema"]) == (False, [], 1)
    assert record["model"] == run.model_hashes[0]

    assert call(str(run.path), "--show") == 0
    assert capsys.readouterr().out == "".join(out.partition("wrote")[0])


def test_a_checkpoint_has_its_own_record(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    few = ("--effort", "quick", "--json")
    records = {}
    for step in ("0", "1"):
        assert call(str(run.path), "--model", "1", "--checkpoint", step, "--no-figures", *few) == 0
        records[step] = json.loads(capsys.readouterr().out)
        there = json.loads((run.path / "circuits" / f"step-00000{step}-1.json").read_text())
        assert {name: value for name, value in there.items() if name != "seal"} == records[step]
    assert records["0"]["losses"] != records["1"]["losses"]
    assert records["0"]["model"] != records["1"]["model"] == run.model_hashes[1], "the last checkpoint is the model"
    assert call(str(run.path), "--checkpoint", "0", *few) == 0
    assert (run.path / "figures" / "maps-step-000000.png").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("{folder}/nowhere",), "does not exist"),
        (("{run}", "--max-loss", "0.9"), "max_loss must be above 0 and below 0.5"),
        (("{run}", "--max-loss", "nan"), "max_loss must be above 0 and below 0.5"),
        (("{run}", "--checkpoint", "9223372036854775808"), "must be at most 9007199254740992"),
        (("{run}", "--model", "2"), "run must be at most 1, got 2"),
        (("{run}", "--checkpoint", "7"), "no checkpoint at step 7; the nearest is at step 1"),
        (("{run}", "--show", "--max-loss", "0.1"), "--show searches nothing; leave --max-loss out"),
        (("{run}", "--show", "--overwrite"), "--show searches nothing; leave --overwrite out"),
        (("{run}", "--formulation", "equations", "--hops", "7"), "hops must be 1..6 and chains 4 for equations"),
        (("{run}", "--formulation", "equations", "--model", "1"), "leave --model out"),
        (("{run}", "--hops", "2"), "without --formulation or --task it is no language model; leave --hops out"),
        (("{run}", "--form", "code"), "without --formulation or --task it is no language model; leave --form out"),
    ],
)
def test_bad_input(
    run: RunFolder, tmp_path: Path, arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*(argument.format(run=run.path, folder=tmp_path) for argument in arguments)) == 2
    said = capsys.readouterr().err
    assert words in said


def test_show_names_the_command_that_makes_a_circuit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = Recipe(layers=1, heads=1, d_model=8, steps=1, batch_size=4, mlp=False, validation_size=4)
    other = train(recipe, RetrievalProblem(hops=1), tmp_path / "run", seeds=(0, 1), execution=REFERENCE)
    for options, words in (
        ((), f"circuit.json does not exist; `hopscope circuit {other.path}` makes it"),
        (("--model", "1", "--checkpoint", "1"), f"`hopscope circuit {other.path} --model 1 --checkpoint 1` makes it"),
        (("--model", "5"), "must be at most 1, got 5"),
        (("--checkpoint", "77"), "has no checkpoint at step 77; the nearest is at step 1"),
    ):
        assert call(str(other.path), "--show", *options) == 2
        assert words in capsys.readouterr().err


def test_a_certified_circuit_is_replaced_by_overwrite_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Recipe, "architecture", witness_shape)
    run = known_run(tmp_path / "run")
    path = circuit_json(run, run.path / "circuit.json", checks=all_passed())
    Circuit.load(path).save(path, run.hash)
    stored = replace(Circuit.load(path), seed=run.seeds[0], max_loss=0.05)
    made = replace(stored, search=SearchRecord("thorough", proof=CertificateConfig()))
    made.save(path, run.hash)
    before = path.read_bytes()
    searched = []

    def search(*_: object) -> Search[Circuit]:
        yield from ()
        searched.append(1)
        return made

    monkeypatch.setattr("hopscope.lab.model.search_circuit", search)
    assert call(str(run.path), "--no-figures", "--json") == 0
    assert json.loads(capsys.readouterr().out)["certified"]
    for other in (("--seed", "1"), ("--effort", "quick")):
        assert call(str(run.path), *other, "--no-figures") == 2
        assert re.search(r"holds a certified circuit, found with .*; pass --overwrite", capsys.readouterr().err)
    model = Run(run.path)[0]
    assert model.find_circuit() == Circuit.load(path)
    for other_search in ({"seed": 1}, {"effort": "quick"}, {"proof": CertificateConfig(draws=7)}):
        with pytest.raises(InputError, match=r"holds a certified circuit, found with .*overwrite=True"):
            model.find_circuit(**other_search)
    assert (path.read_bytes(), searched) == (before, [])
    assert call(str(run.path), "--seed", "1", "--overwrite", "--no-figures") == 0
    assert searched == [1]


def test_a_circuit_of_another_model_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Recipe, "architecture", witness_shape)
    run = known_run(tmp_path / "run", models=2)
    then = content_hash([run.model_hashes[0], 300])
    circuit_json(run, run.path / "circuit.json", model=then)
    assert call(str(run.path), "--show") == 0  # a run that goes on is as it was at any checkpoint
    monkeypatch.setattr(RunFolder, "finished", True)
    assert call(str(run.path), "--show") == 2
    assert "circuit.json holds the circuit of another model, or of this model at" in capsys.readouterr().err
    (run.path / "circuit-1.json").write_bytes((run.path / "circuit.json").read_bytes())
    assert call(str(run.path), "--show", "--model", "1") == 2
    assert "circuit-1.json holds the circuit of another model" in capsys.readouterr().err
    (run.path / "circuits").mkdir()
    circuit_json(run, run.path / "circuits" / "step-000300.json", model=then)
    assert call(str(run.path), "--show", "--checkpoint", "300") == 0


def test_figures_are_drawn_unless_they_are_switched_off(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    monkeypatch.setattr("hopscope.plot.save", lambda figure, stem: drawn.append(stem.name) or [])
    for options, stems in (((), ["maps", "prompts"]), (("--show",), []), (("--no-figures",), [])):
        drawn.clear()
        assert call(str(run.path), *options) == 0
        assert drawn == stems


def test_a_language_model_needs_a_formulation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text("{}")
    for more in ((), ("--show",)):
        assert call(str(tmp_path), *more) == 2
        assert f"{tmp_path} is a language model; pass --formulation equations" in capsys.readouterr().err


def test_a_renamed_checkpoint_is_rejected(run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its circuit would be kept as the model's."""
    shutil.copytree(run.path, tmp_path / "run", ignore=shutil.ignore_patterns("circuit*"))
    (tmp_path / "run" / "checkpoints" / "step-000001.safetensors").rename(
        tmp_path / "run" / "checkpoints" / "step-000000.safetensors"
    )
    assert call(str(tmp_path / "run")) == 2
    said = capsys.readouterr().err
    assert "has no checkpoint at step 1; the nearest is at step 0" in said
    assert not (tmp_path / "run" / "circuit.json").exists()
    with pytest.raises(InputError, match="no checkpoint at step 1"):
        RunFolder(tmp_path / "run").transformer()


@pytest.fixture(scope="module")
def circuits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of two witnesses."""
    folder = tmp_path_factory.mktemp("circuits")
    for hops in (1, 2):
        witness = disguised_witness(hops)
        found = Model(witness.transformer, witness.problem).find_circuit(
            effort=SearchBudget(1, 0, sequences=16, confirming=16, deciding=16),
            proof=CertificateConfig(sequences=16, deciding=16, few=8, draws=4),
        )
        replace(found, model=f"w{hops}").save(folder / f"{hops}" / "circuit.json")
    return folder


def test_a_record_is_shown_without_its_run(circuits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As those do that somebody else's runs left behind: the folder or the file."""
    record = circuits / "2" / "circuit.json"
    shown = []
    for name in (record, record.parent):
        assert call(str(name), "--show") == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    assert "x0? -> >x1" in shown[0]
    assert call(str(record)) == 2
    assert "is a file" in capsys.readouterr().err
    assert call(str(record), "--show", "--model", "1") == 2
    assert "is one record" in capsys.readouterr().err
