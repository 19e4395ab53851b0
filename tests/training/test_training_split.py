"""Runs trained as one ensemble and split: each is what it would be alone, complete or not there."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hopscope.errors import InputError
from hopscope.integrity import check
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.records import row_lines
from hopscope.training import execution, side_by_side, trainer
from hopscope.training.ensemble import Ensemble
from hopscope.training.execution import Execution
from hopscope.training.metrics import rows_of
from hopscope.training.progress import Progress, progress_of
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.run import RunFolder
from hopscope.training.side_by_side import ENSEMBLES, finished, seed_groups, train_all

PROBLEM = RetrievalProblem(hops=2, chains=1)
RECIPE = Recipe(
    layers=2, heads=2, d_model=16, steps=120, batch_size=32, log_every=5, final_steps=9, validation_size=8, mlp=False,
    examples=64, learning_rate=1e-2, schedule="decay-when-learned", learned_below=0.97, decay_fraction=0.25,
    checkpoint_every=20,
)  # fmt: skip
SHORT = replace(RECIPE, steps=8, final_steps=1, log_every=4, checkpoint_every=4, schedule="constant")
ONE = Execution(device="cpu", threads=1, precision="fp32", workers=1)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Few sequences at the end, and models one by one, as they would go alone."""
    monkeypatch.setattr(trainer, "HELD_OUT", 8)
    monkeypatch.setattr(execution, "_POSITIONS_AT_ONCE", 1)


def runs(recipe: Recipe = RECIPE, seeds: tuple[int, ...] = (1, 2, 3)) -> list[Setup]:
    return [Setup(f"arm/seed-{seed}", PROBLEM, recipe, (seed,)) for seed in seeds]


def trained(folder: Path, setups: list[Setup], **how: object) -> None:
    train_all(setups, folder, **{"execution": ONE, "as_ensembles": True, **how})


def files(folder: Path) -> dict[str, bytes]:
    """What a run says, but for what may differ: its execution, its training losses, its state."""
    skipped = {"run.json", "metrics.jsonl", "state.safetensors", ".writer"}
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in skipped
    }


@pytest.mark.parametrize(
    "recipe",
    [
        replace(RECIPE, prune_every=5, head_dropout=0.5, head_dropout_after=1),
        replace(RECIPE, checkpoint_precision="bf16", checkpoint_every=7),
    ],
)
def test_each_is_what_it_is_alone(recipe, tmp_path):
    setups = runs(recipe)
    trained(tmp_path / "alone", setups, as_ensembles=False)
    seen: list[dict[str, Progress]] = []
    trained(tmp_path / "together", setups, watch=seen.append)
    assert [path.name for path in (tmp_path / "together").iterdir()] == ["arm"]
    alone, found = (finished(setups, tmp_path / name) for name in ("alone", "together"))
    assert len({run.result.steps for run in alone.values()}) > 1  # they end by themselves
    for name, run in found.items():
        other = alone[name]
        assert files(run.path) == files(other.path)
        assert run.metrics.steps.tolist() == other.metrics.steps.tolist()
        for losses in ("validation_loss", "partial_losses", "heads"):
            assert np.array_equal(getattr(run.metrics, losses), getattr(other.metrics, losses), equal_nan=True)
        for losses in ("train_loss", "train_partial_losses"):
            assert getattr(run.metrics, losses) == pytest.approx(getattr(other.metrics, losses), rel=1e-5)
    assert not [one.trouble for one in check(tmp_path / "together") if one.trouble]
    assert all(set(one) == {setup.name for setup in setups} for one in seen)
    assert len({one.partial_losses for one in seen[0].values()}) == 3
    assert {name: one.step for name, one in seen[-1].items()} == {n: run.result.steps for n, run in found.items()}


@pytest.mark.parametrize("models", [1, 3])
def test_progress_is_of_the_last_step_that_every_model_has_a_row_of(models, tmp_path):
    """Read at any byte of the metrics."""
    setup = Setup("arm", PROBLEM, RECIPE, tuple(range(models)))
    path = tmp_path / "arm" / "metrics.jsonl"
    path.parent.mkdir()
    steps = [[replace(row, train_partial_losses=(0.1,) * 40) for row in rows_of(
        step, [[0.0]] * models, [[step + model / 64] for model in range(models)])] for step in range(1, 4)]  # fmt: skip
    texts = [row_lines(rows, "a run") for rows in steps]
    before, whole = len("".join(texts[:-1])), "".join(texts)
    for size in [0, 1, len(texts[0]) - 1, *range(before, len(whole) + 1, 7), len(whole)]:
        path.write_text(whole[:size])
        found = progress_of([setup], tmp_path)["arm"]
        step = 3 if size == len(whole) else 2 if size >= before else 0
        assert (found.step, found.partial_losses) == (step, tuple((step + m / 64,) for m in range(models) if step))


def test_a_killed_ensemble_goes_on_though_fewer_runs_or_more_are_wanted(tmp_path):
    class Stopped(Exception):
        pass

    def stop(found: dict[str, Progress]) -> None:
        if any(one.step == 4 for one in found.values()):
            raise Stopped

    with pytest.raises(Stopped):
        trained(tmp_path, runs(SHORT, (1, 2, 3, 4)), watch=stop)
    (begun,) = (tmp_path / ENSEMBLES).iterdir()
    wanted, others = runs(SHORT, (2, 3, 5)), runs(SHORT, (1, 4))
    (first,) = seed_groups(wanted, tmp_path, lambda _: True)
    assert (first.setup.seeds, [run.seeds for run in first.runs]) == ((1, 2, 3, 4), [(2,), (3,)])
    assert first.setup.name == f"{ENSEMBLES}/{begun.name}"
    trained(tmp_path, wanted)
    (again,) = seed_groups(others, tmp_path, lambda _: True)  # of the same ensemble: they are trained
    assert RunFolder(tmp_path / again.setup.name).finished
    trained(tmp_path, others)
    trained(tmp_path / "alone", [*wanted, *others], as_ensembles=False)
    for name, run in finished([*wanted, *others], tmp_path).items():
        assert files(run.path) == files(tmp_path / "alone" / name)
    trained(tmp_path, runs(SHORT, (1, 2, 3, 4)))
    assert not (tmp_path / ENSEMBLES).exists()


@pytest.mark.parametrize("number", [1, 2])
def test_a_split_that_was_killed_is_made_good(number, monkeypatch, tmp_path):
    """What is being split is no trouble to a check, and what has its folder is complete."""
    plain, results = RunFolder.finish, []

    def finish(self: RunFolder, result: object) -> None:
        if len(results) > number:
            raise RuntimeError("killed")
        results.append(self.path)
        plain(self, result)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "finish", finish)
        with pytest.raises(RuntimeError, match="killed"):
            trained(tmp_path, runs(SHORT))
    assert not [one.trouble for one in check(tmp_path) if one.trouble]
    with monkeypatch.context() as patch:  # it is not trained again
        patch.setattr(Ensemble, "update", lambda *_: pytest.fail("trained again"))
        trained(tmp_path, runs(SHORT))
    assert len(finished(runs(SHORT), tmp_path)) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["arm"]


def test_who_comes_late_trains_only_what_is_left(monkeypatch, tmp_path):
    """It found what was to be trained, and waited while another process trained it."""
    (late,) = seed_groups(runs(SHORT), tmp_path, lambda _: True)
    trained(tmp_path, runs(SHORT, (1, 2)))
    side_by_side._train_group(late, tmp_path, ONE)
    assert len(finished(runs(SHORT), tmp_path)) == 3
    monkeypatch.setattr(Ensemble, "update", lambda *_: pytest.fail("trained again"))
    side_by_side._train_group(late, tmp_path, ONE)


def test_runs_that_are_wanted_under_two_names_are_trained_under_both(tmp_path):
    setups = [replace(run, name=f"{arm}/{run.name}") for arm in ("one", "two") for run in runs(SHORT)]
    trained(tmp_path, setups)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]
    assert files(tmp_path / "one") == files(tmp_path / "two")


def grouped(setups: list[Setup], folder: Path, most: int = 64) -> list[list[str]]:
    found = seed_groups(setups, folder, lambda one: len(one.seeds) <= most)
    return [[run.name for run in one.runs] for one in found]


def test_who_goes_together(tmp_path):
    several = Setup("several", PROBLEM, RECIPE, (8, 9))
    other = Setup("other", PROBLEM, replace(RECIPE, steps=121), (1,))
    assert grouped([several, *runs(), other], tmp_path) == [[f"arm/seed-{seed}" for seed in (1, 2, 3)]]
    assert grouped([several, other], tmp_path) == []
    again = [replace(run, name=f"again/{run.name}") for run in runs(seeds=(1, 2))]
    twice = [*runs(seeds=(1, 2)), *again]  # both would train in one folder
    assert grouped(twice, tmp_path) == [["arm/seed-1", "arm/seed-2"]]
    assert [len(one) for one in grouped(runs(seeds=tuple(range(10))), tmp_path, most=3)] == [2, 2, 3, 3]
    assert grouped(runs(), tmp_path, most=1) == []
    assert [len(one) for one in grouped(runs(seeds=tuple(range(100))), tmp_path)] == [50, 50]
    (tmp_path / "arm" / "seed-2").mkdir(parents=True)
    assert grouped(runs(), tmp_path) == [[f"arm/seed-{seed}" for seed in (1, 3)]]


def test_what_is_in_the_way_is_named(tmp_path):
    (tmp_path / "arm" / "seed-2").mkdir(parents=True)
    (tmp_path / "arm" / "seed-2" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="seed-2 is in use and holds no hopscope run"):
        trained(tmp_path, runs(SHORT))


PROGRAM = """
import sys
from pathlib import Path
import filelock
import hopscope.training.execution as execution
import hopscope.training.trainer as trainer
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.side_by_side import train_all

trainer._SECONDS_BETWEEN_STATES, trainer.HELD_OUT, execution._POSITIONS_AT_ONCE = 0.0, 8, 1
recipe = Recipe(layers=1, heads=1, d_model=8, steps=4, batch_size=2, log_every=2, final_steps=1, validation_size=2,
                mlp=False, checkpoint_every=2)
setups = [Setup(f"run-{seed}", RetrievalProblem(hops=1, chains=2), recipe, (seed,)) for seed in (1, 2)]
root = Path(sys.argv[1])

def program(folder):
    train_all(setups, folder, execution=execution.Execution(precision="fp32", workers=1), as_ensembles=True)
"""
KILLED = """
from killing import killed_everywhere
moments, alone = killed_everywhere(program, lambda name: root / name, every=5)
assert {"run-1/result.json", "run-2/result.json"} <= set(alone)
assert not [name for name in alone if ".ensembles" in name]
print(moments)
"""
SUPPORT = Path(__file__).parent.parent / "support"


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), *sys.path]), "OMP_NUM_THREADS": "1"}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks")
def test_a_kill_at_any_write_loses_nothing(tmp_path):
    command = [sys.executable, "-c", PROGRAM + KILLED, str(tmp_path)]
    shown = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert int(shown.stdout) > 30


@pytest.mark.slow
def test_two_processes_in_one_folder_destroy_nothing(tmp_path):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-c", PROGRAM + 'print("here", flush=True); input(); program(root)', str(tmp_path)]
    both = [subprocess.Popen(command, env=environment(), text=True, **pipes) for _ in range(2)]
    for one in both:
        one.stdout.readline()
    for one in both:
        one.stdin.write("\n")
        one.stdin.flush()
    errors = [one.communicate(timeout=120)[1] for one in both]
    assert [one.returncode for one in both] == [0, 0], errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run-1", "run-2"]
    assert not [one.trouble for one in check(tmp_path) if one.trouble]
