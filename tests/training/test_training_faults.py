"""What a run refuses: files that are not what was written, engines and sizes that this machine lacks. And signals."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from cut_short import contents

from hopscope.circuits.find import circuit_of_run
from hopscope.cli import main
from hopscope.errors import InputError
from hopscope.integrity import check
from hopscope.lab import train
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.records import plain
from hopscope.training.engine import Engine
from hopscope.training.ensemble import Ensemble
from hopscope.training.memory import least_memory
from hopscope.training.recipe import Recipe
from hopscope.training.run import _RUN, RunFolder
from hopscope.training.setup import Setup

PROBLEM = RetrievalProblem(hops=1, chains=2)
TINY = Recipe(
    layers=1, heads=1, d_model=8, steps=12, batch_size=4, log_every=4, final_steps=1, validation_size=4,
    checkpoint_every=4,
)  # fmt: skip
ENGINE = Engine(threads=1)
SHAPE = [
    "--layers",
    "1",
    "--heads",
    "1",
    "--d-model",
    "64",
    "--head-dim",
    "8",
    "--steps",
    "2",
    "--batch-size",
    "2",
    "--precision",
    "fp32",
    "--device",
    "cpu",
]


class Stopped(Exception):
    pass


def half(folder, monkeypatch, seed=0, calls=9, recipe=TINY):
    """A run that was stopped after its state at step 8."""
    monkeypatch.setattr("hopscope.training.trainer._SECONDS_BETWEEN_STATES", 0.0)
    with monkeypatch.context() as patch:
        plain_update, left = Ensemble.update, iter(range(calls))

        def update(self, batch, rate, scales):
            if next(left, None) is None:
                raise Stopped
            return plain_update(self, batch, rate, scales)

        patch.setattr(Ensemble, "update", update)
        with pytest.raises(Stopped):
            train(recipe, PROBLEM, folder, seeds=[seed], engine=ENGINE)
    assert RunFolder(folder).load_state()[0] == 8
    return folder


def test_a_state_from_another_order_of_the_training_set_goes_on_in_its_first_pass_alone(tmp_path, monkeypatch):
    """A run of an older hopscope: it may be finished by it, and read by anybody."""
    for examples, past in ((2**18, False), (32, False), (31, True), (None, False)):
        recipe, folder = replace(TINY, examples=examples), tmp_path / str(examples)
        alone = train(recipe, PROBLEM, tmp_path / f"alone-{examples}", engine=ENGINE)
        step, state = RunFolder(half(folder, monkeypatch, recipe=recipe)).load_state()
        state.pop("order of the training set", None)
        RunFolder(folder).save_state(step, state)
        before = contents(folder)
        if past:
            with pytest.raises(
                InputError, match=r"step 8 through its training set in an order that .* train into another folder"
            ):
                train(recipe, PROBLEM, folder)
            assert contents(folder) == before
            assert [one.trouble for one in check(folder) if one.trouble] == []
            continue
        assert contents(train(recipe, PROBLEM, folder).path) == contents(alone.path)


def test_a_finished_run_in_another_order_is_read(tmp_path):
    recipe = replace(TINY, examples=5)
    run = train(recipe, PROBLEM, tmp_path / "run", engine=ENGINE)
    step, state = run.load_state()
    del state["order of the training set"]
    run.save_state(step, state)
    assert train(recipe, PROBLEM, run.path).result.steps == 12
    assert not any(one.trouble for one in check(run.path))


def test_checkpoints_from_after_the_state_are_not_taken_for_the_end(tmp_path, monkeypatch):
    """Of a life that ended, or learned, later than the one that goes on: on another machine it rounds otherwise."""
    alone = train(TINY, PROBLEM, tmp_path / "alone", engine=ENGINE)
    folder = half(tmp_path / "run", monkeypatch)
    left, run = contents(folder), RunFolder(folder)
    for step in (10, 12, 40):
        run.save_checkpoint(step, {name: tensor + 1 for name, tensor in run.transformer(4).state_dict().items()})
    assert contents(train(TINY, PROBLEM, folder).path) == contents(alone.path)
    assert set(left) < set(contents(folder))


def test_a_run_whose_state_was_lost_is_not_begun_again_over_what_it_had_come_to(tmp_path, monkeypatch):
    folder = half(tmp_path / "run", monkeypatch)
    (folder / "state.safetensors").unlink()
    left = contents(folder)
    with pytest.raises(InputError, match=r"has checkpoints up to step 8, but no state.safetensors to go on from"):
        train(TINY, PROBLEM, folder)
    assert contents(folder) == left


def test_a_run_that_was_killed_before_its_first_state_begins_again(tmp_path, monkeypatch):
    alone = train(TINY, PROBLEM, tmp_path / "alone", engine=ENGINE)
    folder = half(tmp_path / "run", monkeypatch)
    (folder / "state.safetensors").unlink()
    for step in sorted(RunFolder(folder).checkpoints)[2:]:  # the beginning and one more, of which a state is to follow
        RunFolder(folder).checkpoints[step].unlink()
    assert contents(train(TINY, PROBLEM, folder).path) == contents(alone.path)


def test_a_state_goes_with_every_checkpoint(tmp_path, monkeypatch):
    """Else two checkpoints without one would not tell that it was lost."""
    monkeypatch.setattr("hopscope.training.trainer._SECONDS_BETWEEN_STATES", float("inf"))
    written = []
    monkeypatch.setattr(RunFolder, "save_checkpoint", lambda self, step, *a, **b: written.append(("checkpoint", step)))
    monkeypatch.setattr(RunFolder, "save_state", lambda self, step, *a: written.append(("state", step)))
    monkeypatch.setattr("hopscope.training.trainer._finish", lambda run, device: None)
    train(TINY, PROBLEM, tmp_path / "run", engine=ENGINE)
    checkpoints = [step for kind, step in written if kind == "checkpoint" and step]
    assert len(checkpoints) > 1
    assert [step for kind, step in written if kind == "state"] == checkpoints


def test_what_stands_among_the_checkpoints_and_is_none_is_named_and_left(tmp_path, monkeypatch):
    folder = half(tmp_path / "run", monkeypatch)
    notes = folder / "checkpoints" / "step-000777.safetensors"
    notes.write_text("my notes")
    left = contents(folder)
    with pytest.raises(InputError, match=r"step-000777.safetensors is damaged or not a checkpoint"):
        train(TINY, PROBLEM, folder)
    assert contents(folder) == left


def refused(folder, name):
    before = (folder / name).read_bytes()
    with pytest.raises(InputError, match=name):
        train(TINY, PROBLEM, folder, engine=ENGINE)
    assert (folder / name).read_bytes() == before
    assert not (folder / "result.json").exists()
    assert any(name in one.trouble for one in check(folder))


def test_a_flipped_bit_of_the_state_is_refused(tmp_path, monkeypatch):
    folder = half(tmp_path / "run", monkeypatch)
    data = bytearray((folder / "state.safetensors").read_bytes())
    data[-5] ^= 1
    (folder / "state.safetensors").write_bytes(data)
    refused(folder, "state.safetensors")


def test_the_state_of_another_seed_is_refused(tmp_path, monkeypatch):
    folder, other = half(tmp_path / "run", monkeypatch), half(tmp_path / "other", monkeypatch, seed=1)
    shutil.copy(other / "state.safetensors", folder)
    refused(folder, "state.safetensors")


@pytest.mark.parametrize("kept", [0, 1])
def test_lost_rows_are_noticed_where_a_run_goes_on(tmp_path, monkeypatch, kept):
    folder = half(tmp_path / "run", monkeypatch)
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(lines[:kept]))
    refused(folder, "metrics.jsonl")


def test_lost_and_changed_rows_of_a_finished_run_are_noticed(tmp_path):
    run = train(TINY, PROBLEM, tmp_path / "run", engine=ENGINE)
    path = run.path / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    for changed in ([], lines[:-1], lines[1:], [lines[0].replace('"step": 4', '"step": 5'), *lines[1:]]):
        path.write_text("".join(changed))
        with pytest.raises(InputError, match=r"metrics\.jsonl"):
            _ = RunFolder(run.path).metrics


def test_a_finished_run_without_all_its_rows_is_not_told_as_a_whole_one(tmp_path, capsys):
    asked, rows = ["train", str(tmp_path / "run"), *SHAPE], tmp_path / "run" / "metrics.jsonl"

    def told() -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(asked)
        return stop.value.code, *capsys.readouterr()

    whole = told()
    assert (whole[0], told()) == (0, whole)
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[1:]))
    status, out, error = told()
    assert (status, out) == (2, "")
    assert "metrics.jsonl is damaged: it lacks the row of step 1" in error


def test_a_content_hash_that_is_not_the_runs_is_refused(tmp_path):
    run = train(TINY, PROBLEM, tmp_path / "run", engine=ENGINE)
    changed = replace(run.record, recipe=replace(run.recipe, learning_rate=2e-3))
    _RUN.write(run.path / "run.json", changed, run.record.content_hash)
    with pytest.raises(InputError, match="content_hash is not that of"):
        RunFolder(run.path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--threads", "1000000"], "threads must be at most"),
        (["--device", "meta"], "device 'meta' cannot be used here"),
        (["--device", "hpu"], "device 'hpu' cannot be used here"),
        (["--d-model", "100000000"], "of memory at the least"),
        (["--batch-size", "10000000000"], "of memory at the least"),
        (["--hops", "100000000"], "of memory at the least"),
        (["--hops", "1" + "0" * 12], "of memory at the least"),
        (["--seeds", "0-99999", "--mlp"], "of memory at the least"),
        (["--steps", "1" + "0" * 400], "steps must be at most"),
        (["--learning-rate", "1e400"], "learning_rate must be a number"),
        (["--seeds", "9" * 30], "seeds must be whole numbers"),
    ],
)
def test_what_this_machine_cannot_do_is_refused_before_anything_is_written(tmp_path, capsys, options, words):
    with pytest.raises(SystemExit) as stop:
        main(["train", str(tmp_path / "run"), *SHAPE, *options])
    assert stop.value.code == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"precision": "fp16"}, "precision must be one of fp32, bf16, got 'fp16'"),
        ({"precision": None}, "precision must be one of fp32, bf16, got None"),
        ({"compiled": "yes"}, "compiled must be true or false, got 'yes'"),
        ({"fused": 3}, "fused must be true or false, got 3"),
        ({"device": 0}, "device must be a name such as cpu, got 0"),
        ({"threads": 1.5}, "threads must be a whole number of at least 1, got 1.5"),
    ],
)
def test_an_engine_that_could_not_be_read_again_is_refused(values, words):
    with pytest.raises(InputError, match=words):
        Engine(**values)


def test_seeds_beyond_63_bits_are_refused():
    for seed in (-1, 2**63, 10**400, 0.5, True):
        with pytest.raises(InputError, match="seed must be a whole number from 0 to"):
            Setup("run", PROBLEM, TINY, (seed,))


def test_a_run_from_another_machine_goes_on_in_its_precision(tmp_path, monkeypatch, caplog):
    folder = half(tmp_path / "run", monkeypatch)
    run = RunFolder(folder)
    elsewhere = replace(run.record, engine=Engine("cuda:7", threads=512, precision="bf16"))
    _RUN.write(folder / "run.json", elsewhere, run.record.content_hash)
    seen = []
    plain_init = Ensemble.__init__
    monkeypatch.setattr(
        Ensemble, "__init__", lambda self, *given: (seen.append(given[-1]), plain_init(self, *given))[1]
    )
    assert train(TINY, PROBLEM, folder).finished
    assert (seen[0].device, seen[0].precision) == ("cpu", "bf16") or torch.cuda.device_count()
    assert "the run goes on with" in caplog.text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_order_to_stop_writes_the_state_between_two_rows(tmp_path, monkeypatch, number):
    alone = train(TINY, PROBLEM, tmp_path / "alone", engine=ENGINE)
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
                train(TINY, PROBLEM, tmp_path / "run", engine=ENGINE)
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)
    assert RunFolder(tmp_path / "run").load_state()[0] == 6
    run = train(TINY, PROBLEM, tmp_path / "run", engine=ENGINE)
    for name in ("metrics.jsonl", "result.json", "state.safetensors"):
        assert (run.path / name).read_bytes() == (alone.path / name).read_bytes()


def test_a_full_disk_loses_nothing_and_takes_one_sentence(tmp_path):
    """By the limit on a file's size, which is met in the middle of the state."""
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000)); import hopscope.cli as c; c.main()"
    )
    command = ["train", str(tmp_path / "run"), *SHAPE, "--no-compile"]
    shown = subprocess.run([sys.executable, "-c", program, *command], capture_output=True, text=True)
    assert (shown.returncode, shown.stderr.count("\n")) == (1, 2), shown.stderr
    assert "File too large" in shown.stderr
    assert not list((tmp_path / "run").rglob("*.tmp"))
    assert RunFolder(tmp_path / "run").recipe.d_model == 64


def test_a_run_that_another_process_begins_just_now_is_found(tmp_path, monkeypatch):
    folder, setup, plain = tmp_path / "run", Setup("run", PROBLEM, TINY, (0,)), Path.iterdir
    folder.mkdir()

    def after_the_other(path):
        monkeypatch.setattr(Path, "iterdir", plain)
        RunFolder.create(folder, setup, ENGINE)
        return plain(path)

    monkeypatch.setattr(Path, "iterdir", after_the_other)
    assert RunFolder.create(folder, setup, Engine(precision="bf16")).engine == ENGINE
    monkeypatch.setattr(Path, "iterdir", after_the_other)
    with pytest.raises(InputError, match="holds a run with steps = 12, not 13"):
        RunFolder.create(folder, replace(setup, recipe=replace(TINY, steps=13)), ENGINE)


def test_what_is_checked_is_said(tmp_path, capsys):
    run = train(TINY, PROBLEM, tmp_path / "run", engine=ENGINE)
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
    run = train(TINY, PROBLEM, tmp_path / "run", engine=ENGINE)
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
    run = train(TINY, PROBLEM, tmp_path / "run", seeds=[0, 1], engine=ENGINE)
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


def test_what_is_not_kept_is_not_counted():
    """Fused attention makes patterns anew on the way back: with them a run that fits would be refused."""
    setup = Setup("run", PROBLEM, TINY, (0, 1))
    plain_way, fused = least_memory(setup, ENGINE), least_memory(setup, replace(ENGINE, fused=True))
    rows, patterns = TINY.batch_size * PROBLEM.sequence_length, TINY.heads * PROBLEM.sequence_length
    assert plain_way - fused == TINY.layers * rows * patterns * 4
