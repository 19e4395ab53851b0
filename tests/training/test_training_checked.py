"""What `hopscope check` finds of a run: files changed, lost, or under another's name."""

from __future__ import annotations

import json
import shutil

import pytest
from half_trained import ENGINE, PROBLEM, TINY, half

from hopscope.circuits.find import circuit_of_run
from hopscope.cli import main
from hopscope.integrity import check
from hopscope.lab import train
from hopscope.records import plain
from hopscope.training.run import RunFolder


def test_what_is_checked_is_said(tmp_path, capsys):
    run = train(TINY, PROBLEM, tmp_path / "run", execution=ENGINE)
    for changed, status, words in ((False, 0, "none damaged"), (True, 1, "result.json is damaged")):
        if changed:
            there = json.loads((run.path / "result.json").read_text())
            there["models"][0]["held_out_loss"] = 0.0
            (run.path / "result.json").write_text(json.dumps(there))
        with pytest.raises(SystemExit) as stop:
            main(["check", str(tmp_path)])
        assert stop.value.code == status
        assert words in capsys.readouterr().out
    assert plain(run.record)["recipe"]["steps"] == 12


def test_checkpoints_that_are_lost_or_under_another_name_are_found(tmp_path):
    run = train(TINY, PROBLEM, tmp_path / "run", execution=ENGINE)
    first, second = run.checkpoint_path(4), run.checkpoint_path(8)

    def found(harm):
        shutil.copytree(run.path, tmp_path / "harmed")
        harm(tmp_path / "harmed" / "checkpoints")
        troubles = [one.trouble for one in check(tmp_path / "harmed") if one.trouble]
        shutil.rmtree(tmp_path / "harmed")
        return troubles

    assert found(lambda folder: None) == []
    (lost,) = found(lambda folder: (folder / first.name).unlink())
    assert f"{first.name} is missing, and the run has come past it" in lost
    assert len(found(shutil.rmtree)) == len(run.checkpoints) == 4
    (twice,) = found(lambda folder: shutil.copyfile(folder / first.name, folder / second.name))
    assert f"{second.name} holds the weights of step 4; give it back its name, {first.name}" in twice
    (renamed,) = found(lambda folder: (folder / first.name).rename(folder / "step-000005.safetensors"))
    assert "step-000005.safetensors holds the weights of step 4" in renamed
    (folder,) = found(lambda folder: ((folder / first.name).unlink(), (folder / first.name).mkdir()))
    assert f"{first.name} is not a file" in folder
    last = run.checkpoint_path(run.result.steps).name  # as far as the state
    state = "state.safetensors"
    (kept,) = found(lambda folder: shutil.copyfile(folder.parent / state, folder / last))
    assert f"{last} does not hold the weights of this run alone" in kept
    (lean,) = found(lambda folder: shutil.copyfile(folder / last, folder.parent / state))
    assert f"{state} does not hold a state of this run to go on from" in lean
    (run.path / state).unlink()  # as in a small copy
    assert found(shutil.rmtree) == []


def test_a_checkpoint_lost_by_a_run_that_was_stopped_is_found(tmp_path, monkeypatch):
    folder = half(tmp_path / "run", monkeypatch)
    assert not [one for one in check(folder) if one.trouble]
    RunFolder(folder).checkpoint_path(4).unlink()
    assert ["step-000004" in one.trouble for one in check(folder) if one.trouble] == [True]


def test_a_lost_state_is_found(tmp_path, monkeypatch):
    folder = half(tmp_path / "run", monkeypatch)
    (folder / "state.safetensors").unlink()
    assert ["no state.safetensors to go on from" in one.trouble for one in check(folder)].count(True) == 1


def test_a_circuit_under_the_name_of_another_model_is_found(tmp_path):
    run = train(TINY, PROBLEM, tmp_path / "run", seeds=[0, 1], execution=ENGINE)
    for step in (None, 8):
        circuit_of_run(run, 1, step, effort="quick")
    assert not [one for one in check(run.path) if one.trouble]
    first, at_8 = run.path / "circuit-1.json", run.path / "circuits" / "step-000008-1.json"
    for there, name, words in (
        (first, "circuit.json", "holds the circuit of model 1, whose place is"),
        (first, "circuit-2.json", "holds the circuit of model 1, whose place is"),
        (at_8, "circuits/step-000004-1.json", "holds the circuit of another model"),
        (at_8, "circuit.json", "holds the circuit of model 1, whose place is"),
    ):
        shutil.copyfile(there, run.path / name)
        (trouble,) = (one.trouble for one in check(run.path) if one.trouble)
        assert f"{run.path / name} {words}" in trouble
        (run.path / name).unlink()
    shutil.copyfile(at_8, first)  # as it was found before the run came to its end
    assert not [one for one in check(run.path) if one.trouble]
