"""States, rows and checkpoints that are not what was written, signals and a full disk: refused, survived, reported."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import pytest
from killing import contents
from small_runs import ONE_HOP, OPTIONS, TINIEST, half_trained

from hopscope.errors import InputError
from hopscope.integrity import check
from hopscope.lab.run import train
from hopscope.training.ensemble import Ensemble
from hopscope.training.execution import REFERENCE
from hopscope.training.run import RunFolder


def test_checkpoints_from_after_the_state_are_not_taken_for_the_end(tmp_path, monkeypatch):
    """Of a life that ended, or learned, later than the one that goes on: on another machine it rounds otherwise."""
    alone = train(TINIEST, ONE_HOP, tmp_path / "alone", execution=REFERENCE)
    folder = half_trained(tmp_path / "run", monkeypatch)
    left, run = contents(folder), RunFolder(folder)
    for step in (10, 12, 40):
        run.save_checkpoint(step, {name: tensor + 1 for name, tensor in run.transformer(4).state_dict().items()})
    assert contents(train(TINIEST, ONE_HOP, folder).path) == contents(alone.path)
    assert set(left) < set(contents(folder))


def test_a_run_whose_state_was_lost_is_not_overwritten(tmp_path, monkeypatch):
    folder = half_trained(tmp_path / "run", monkeypatch)
    (folder / "state.safetensors").unlink()
    left = contents(folder)
    with pytest.raises(InputError, match=r"has checkpoints up to step 8, but no state.safetensors to resume from"):
        train(TINIEST, ONE_HOP, folder)
    assert contents(folder) == left


def test_a_run_killed_before_its_first_state_begins_again(tmp_path, monkeypatch):
    alone = train(TINIEST, ONE_HOP, tmp_path / "alone", execution=REFERENCE)
    folder = half_trained(tmp_path / "run", monkeypatch)
    (folder / "state.safetensors").unlink()
    for step in sorted(RunFolder(folder).checkpoints)[2:]:  # the beginning and one more, of which a state is to follow
        RunFolder(folder).checkpoints[step].unlink()
    assert contents(train(TINIEST, ONE_HOP, folder).path) == contents(alone.path)


def test_a_state_goes_with_every_checkpoint(tmp_path, monkeypatch):
    """Else two checkpoints without one would not tell that it was lost."""
    monkeypatch.setattr("hopscope.training.trainer._SECONDS_BETWEEN_STATES", float("inf"))
    written = []
    monkeypatch.setattr(RunFolder, "save_checkpoint", lambda self, step, *a, **b: written.append(("checkpoint", step)))
    monkeypatch.setattr(RunFolder, "save_state", lambda self, step, *a: written.append(("state", step)))
    monkeypatch.setattr("hopscope.training.trainer._finish", lambda run, device: None)
    train(TINIEST, ONE_HOP, tmp_path / "run", execution=REFERENCE)
    checkpoints = [step for kind, step in written if kind == "checkpoint" and step]
    assert len(checkpoints) > 1
    assert [step for kind, step in written if kind == "state"] == checkpoints


def refused(folder, name):
    before = (folder / name).read_bytes()
    with pytest.raises(InputError, match=name):
        train(TINIEST, ONE_HOP, folder, execution=REFERENCE)
    assert (folder / name).read_bytes() == before
    assert not (folder / "result.json").exists()
    assert any(name in file.trouble for file in check(folder))


def test_a_flipped_bit_of_the_state_is_refused(tmp_path, monkeypatch):
    folder = half_trained(tmp_path / "run", monkeypatch)
    data = bytearray((folder / "state.safetensors").read_bytes())
    data[-5] ^= 1
    (folder / "state.safetensors").write_bytes(data)
    refused(folder, "state.safetensors")


@pytest.mark.parametrize("kept", [0, 1])
def test_lost_rows_are_noticed_where_a_run_goes_on(tmp_path, monkeypatch, kept):
    folder = half_trained(tmp_path / "run", monkeypatch)
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(lines[:kept]))
    refused(folder, "metrics.jsonl")


def test_lost_and_changed_rows_of_a_finished_run_are_noticed(tmp_path):
    run = train(TINIEST, ONE_HOP, tmp_path / "run", execution=REFERENCE)
    path = run.path / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    for changed in ([], lines[:-1], lines[1:], [lines[0].replace('"step": 4', '"step": 5'), *lines[1:]]):
        path.write_text("".join(changed))
        with pytest.raises(InputError, match=r"metrics\.jsonl"):
            _ = RunFolder(run.path).metrics


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_signal_writes_the_state_between_two_rows(tmp_path, monkeypatch, number):
    alone = train(TINIEST, ONE_HOP, tmp_path / "alone", execution=REFERENCE)
    plain_update, calls = Ensemble.update, iter(range(6))

    def update(self, batch, rate, scales):
        if next(calls, None) == 5:
            os.kill(os.getpid(), number)
        return plain_update(self, batch, rate, scales)

    before = signal.signal(number, signal.default_int_handler)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Ensemble, "update", update)
            with pytest.raises(KeyboardInterrupt):
                train(TINIEST, ONE_HOP, tmp_path / "run", execution=REFERENCE)
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)
    assert 6 <= RunFolder(tmp_path / "run").load_state()[0] < 12
    run = train(TINIEST, ONE_HOP, tmp_path / "run", execution=REFERENCE)
    for name in ("metrics.jsonl", "result.json", "state.safetensors"):
        assert (run.path / name).read_bytes() == (alone.path / name).read_bytes()


@pytest.mark.slow
def test_a_full_disk_loses_nothing_and_takes_one_sentence(tmp_path):
    """By the limit on a file's size, which is met in the middle of the state."""
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000)); import hopscope.cli as c; c.main()"
    )
    command = ["train", str(tmp_path / "run"), *OPTIONS, "--no-compiled"]
    python = [sys.executable, "-B"]  # else a module that it is first to compile would be cut off, for everybody
    shown = subprocess.run([*python, "-c", program, *command], capture_output=True, text=True)
    assert (shown.returncode, shown.stderr.count("\n")) == (1, 2), shown.stderr
    assert "File too large" in shown.stderr
    assert not list((tmp_path / "run").rglob("*.tmp"))
    assert RunFolder(tmp_path / "run").recipe.d_model == 64


def test_checkpoints_that_are_lost_or_under_another_name_are_found(tmp_path):
    run = train(TINIEST, ONE_HOP, tmp_path / "run", execution=REFERENCE)
    first, second = run.checkpoint_path(4), run.checkpoint_path(8)

    def found(harm):
        shutil.copytree(run.path, tmp_path / "harmed")
        harm(tmp_path / "harmed" / "checkpoints")
        troubles = [file.trouble for file in check(tmp_path / "harmed") if file.trouble]
        shutil.rmtree(tmp_path / "harmed")
        return troubles

    assert found(lambda folder: None) == []
    (lost,) = found(lambda folder: (folder / first.name).unlink())
    assert f"{first.name} missing, although the run is at step" in lost
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
    assert not [file for file in check(folder) if file.trouble]
    RunFolder(folder).checkpoint_path(4).unlink()
    assert ["step-000004" in file.trouble for file in check(folder) if file.trouble] == [True]


def test_a_lost_state_is_found(tmp_path, monkeypatch):
    folder = half_trained(tmp_path / "run", monkeypatch)
    (folder / "state.safetensors").unlink()
    assert ["no state.safetensors to resume from" in file.trouble for file in check(folder)].count(True) == 1
