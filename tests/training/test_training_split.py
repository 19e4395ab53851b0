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
from hopscope.training import execution, trainer
from hopscope.training.execution import Execution
from hopscope.training.metrics import rows_of
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.seed_ensembles import ENSEMBLES, seed_groups, train_ensembles
from hopscope.training.side_by_side import finished, progress_of, train_all
from hopscope.training.trainer import Progress

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


def one_seed_each(recipe: Recipe = RECIPE, seeds: tuple[int, ...] = (1, 2, 3)) -> list[Setup]:
    return [Setup(f"condition/seed-{seed}", PROBLEM, recipe, (seed,)) for seed in seeds]


def train_apart(folder: Path, setups: list[Setup]) -> None:
    for setup in setups:
        trainer.train(setup, folder / setup.name, execution=ONE)


def visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith(f"{ENSEMBLES}.lock"))


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
        replace(RECIPE, prune_every=5, head_dropout=0.5, head_dropout_after=1, steps=60),
        replace(RECIPE, checkpoint_precision="bf16", checkpoint_every=7),
    ],
)
def test_each_run_is_as_if_trained_alone(recipe, tmp_path):
    """With more rows: at the ends of other models, too."""
    setups = one_seed_each(recipe)
    train_apart(tmp_path / "alone", setups)
    seen: list[dict[str, Progress]] = []
    train_ensembles(setups, tmp_path / "together", ONE, seen.append)
    assert visible(tmp_path / "together") == ["condition"]
    alone, found = (finished(setups, tmp_path / name) for name in ("alone", "together"))
    assert len({run.result.steps for run in alone.values()}) > 1  # they end by themselves
    for name, run in found.items():
        other = alone[name]
        assert files(run.path) == files(other.path)
        own = np.isin(run.metrics.steps, other.metrics.steps)
        assert run.metrics.steps[own].tolist() == other.metrics.steps.tolist()
        for losses in ("validation_loss", "partial_losses", "heads"):
            rows = getattr(run.metrics, losses)[own]
            assert np.array_equal(rows, getattr(other.metrics, losses), equal_nan=True)
    assert not [file.trouble for file in check(tmp_path / "together") if file.trouble]
    assert all({*runs} == {setup.name for setup in setups} for runs in seen)
    assert [run.step for run in seen[-1].values()] == [max(run.result.steps for run in alone.values())] * 3


def test_progress_is_read_from_the_last_whole_row(tmp_path):
    """Read at any byte of the metrics."""
    setup = Setup("condition", PROBLEM, RECIPE, (1,))
    path = tmp_path / "condition" / "metrics.jsonl"
    path.parent.mkdir()
    texts = [row_lines(rows_of(step, [[0.0] * 40], [[float(step)]]), "a run") for step in range(1, 4)]
    before, whole = len("".join(texts[:-1])), "".join(texts)
    for size in [0, 1, len(texts[0]) - 1, *range(before, len(whole) + 1, 7), len(whole)]:
        path.write_text(whole[:size])
        found = progress_of([setup], tmp_path)["condition"]
        step = 3 if size == len(whole) else 2 if size >= before else 0
        assert (found.step, found.partial_losses) == (step, ((float(step),),) if step else ())


def test_a_killed_ensemble_goes_on(monkeypatch, tmp_path):
    """Its own run folder resumes; the other ensembles of a call are the same whichever of them are finished."""

    class Stopped(Exception):
        pass

    def stop(_: dict[str, Progress]) -> None:
        raise Stopped

    setups = one_seed_each(SHORT, (1, 2, 3, 4))
    with pytest.raises(Stopped):
        train_ensembles(setups, tmp_path, ONE, progress=stop)
    (begun,) = (tmp_path / ENSEMBLES).iterdir()
    ((ensemble, _),) = seed_groups(setups, tmp_path, lambda _: True)
    assert ensemble.name == f"{ENSEMBLES}/{begun.name}"
    train_ensembles(setups, tmp_path, ONE)
    train_apart(tmp_path / "alone", setups)
    for name, run in finished(setups, tmp_path).items():
        assert files(run.path) == files(tmp_path / "alone" / name)
    assert not (tmp_path / ENSEMBLES).exists()


def test_a_run_with_two_names_gets_both_folders(tmp_path):
    setups = [
        replace(run, name=f"{condition}/{run.name}") for condition in ("one", "two") for run in one_seed_each(SHORT)
    ]
    train_ensembles(setups, tmp_path, ONE)
    assert visible(tmp_path) == ["one", "two"]
    assert files(tmp_path / "one") == files(tmp_path / "two")


def grouped(setups: list[Setup], folder: Path, most: int = 64) -> list[list[str]]:
    found = seed_groups(setups, folder, lambda ensemble: len(ensemble.seeds) <= most)
    return [[run.name for run in runs] for _, runs in found]


def test_which_runs_make_an_ensemble(tmp_path):
    several = Setup("several", PROBLEM, RECIPE, (8, 9))
    other = Setup("other", PROBLEM, replace(RECIPE, steps=121), (1,))
    assert grouped([several, *one_seed_each(), other], tmp_path) == [[f"condition/seed-{seed}" for seed in (1, 2, 3)]]
    assert grouped([several, other], tmp_path) == []
    many = one_seed_each(seeds=tuple(range(100)))
    assert [len(group) for group in grouped(many[:10], tmp_path, most=5)] == [4, 4, 2]
    assert grouped(many[:3], tmp_path, most=1) == []
    whole = grouped(many, tmp_path)
    assert [len(group) for group in whole] == [64, 36]
    assert grouped(many[64:], tmp_path) == whole[1:], "once the first is finished"
    (tmp_path / "condition" / "seed-2").mkdir(parents=True)
    assert grouped(one_seed_each(), tmp_path) == [[f"condition/seed-{seed}" for seed in (1, 3)]]


def test_a_folder_in_use_is_named(tmp_path):
    (tmp_path / "condition" / "seed-2").mkdir(parents=True)
    (tmp_path / "condition" / "seed-2" / "mine.txt").write_text("mine")
    train_ensembles(one_seed_each(SHORT), tmp_path, ONE)  # the others
    assert sorted(path.name for path in (tmp_path / "condition").iterdir()) == ["seed-1", "seed-2", "seed-3"]
    with pytest.raises(InputError, match="seed-2 is in use and holds no hopscope run"):
        train_all(one_seed_each(SHORT), tmp_path, execution=ONE)


PROGRAM = """
import sys
from pathlib import Path
import filelock
import hopscope.training.execution as execution
import hopscope.training.trainer as trainer
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.seed_ensembles import train_ensembles

trainer._SECONDS_BETWEEN_STATES, trainer.HELD_OUT, execution._POSITIONS_AT_ONCE = 0.0, 8, 1
recipe = Recipe(layers=1, heads=1, d_model=8, steps=4, batch_size=2, log_every=2, final_steps=1, validation_size=2,
                mlp=False, checkpoint_every=2)
setups = [Setup(f"run-{seed}", RetrievalProblem(hops=1, chains=2), recipe, (seed,)) for seed in (1, 2)]
root = Path(sys.argv[1])

def program(folder):
    train_ensembles(setups, folder, execution.Execution("cpu", threads=1, precision="fp32"))
"""
KILLED = """
from killing import killed_everywhere
moments, alone = killed_everywhere(program, lambda name: root / name, every=5)
assert {"run-1/result.json", "run-2/result.json"} <= set(alone)
assert not [name for name in alone if ".ensembles/" in name]
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
    for process in both:
        process.stdout.readline()
    for process in both:
        process.stdin.write("\n")
        process.stdin.flush()
    errors = [process.communicate(timeout=120)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], errors
    assert visible(tmp_path) == ["run-1", "run-2"]
    assert not [file.trouble for file in check(tmp_path) if file.trouble]
