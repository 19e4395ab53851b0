"""What `hopscope check` finds of a run: files changed, lost, or under another's name."""

from __future__ import annotations

import json
import shutil

import pytest
from small_runs import ONE_HOP, TINIEST, half_trained

from hopscope.cli import main
from hopscope.integrity import check
from hopscope.lab import train
from hopscope.records import plain
from hopscope.training.execution import REFERENCE
from hopscope.training.run import RunFolder


def test_what_is_checked_is_said(tmp_path, capsys):
    run = train(TINIEST, ONE_HOP, tmp_path / "run", execution=REFERENCE)
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
    run = train(TINIEST, ONE_HOP, tmp_path / "run", execution=REFERENCE)
    first, second = run.checkpoint_path(4), run.checkpoint_path(8)

    def found(harm):
        shutil.copytree(run.path, tmp_path / "harmed")
        harm(tmp_path / "harmed" / "checkpoints")
        troubles = [one.trouble for one in check(tmp_path / "harmed") if one.trouble]
        shutil.rmtree(tmp_path / "harmed")
        return troubles

    assert found(lambda folder: None) == []
    (lost,) = found(lambda folder: (folder / first.name).unlink())
    assert f"{first.name} missing, and the run has come past step" in lost
    (all_lost,) = found(shutil.rmtree)
    assert all(path.name in all_lost for path in run.checkpoints.values())
    (twice,) = found(lambda folder: shutil.copyfile(folder / first.name, folder / second.name))
    assert f"{second.name} is damaged or renamed" in twice
    (renamed,) = found(lambda folder: (folder / first.name).rename(folder / "step-000005.safetensors"))
    assert "step-000005.safetensors is damaged or renamed" in renamed
    (folder,) = found(lambda folder: ((folder / first.name).unlink(), (folder / first.name).mkdir()))
    assert f"{first.name} is not a file" in folder
    last = run.checkpoint_path(run.result.steps).name  # as far as the state
    state = "state.safetensors"
    (kept,) = found(lambda folder: shutil.copyfile(folder.parent / state, folder / last))
    assert f"{last} is damaged or renamed" in kept
    (lean,) = found(lambda folder: shutil.copyfile(folder / last, folder.parent / state))
    assert f"{state} is damaged or renamed" in lean
    (run.path / state).unlink()  # as in a small copy
    assert found(shutil.rmtree) == []


def test_a_checkpoint_lost_by_a_run_that_was_stopped_is_found(tmp_path, monkeypatch):
    folder = half_trained(tmp_path / "run", monkeypatch)
    assert not [one for one in check(folder) if one.trouble]
    RunFolder(folder).checkpoint_path(4).unlink()
    assert ["step-000004" in one.trouble for one in check(folder) if one.trouble] == [True]


def test_a_lost_state_is_found(tmp_path, monkeypatch):
    folder = half_trained(tmp_path / "run", monkeypatch)
    (folder / "state.safetensors").unlink()
    assert ["no state.safetensors to go on from" in one.trouble for one in check(folder)].count(True) == 1
