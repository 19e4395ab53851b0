"""Runs trained as one ensemble and laid apart: each is what it would be alone, whole or not there."""

from __future__ import annotations

import os
import shutil
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
from hopscope.training import execution, many, together, trainer
from hopscope.training.execution import Execution
from hopscope.training.many import finished, train_all
from hopscope.training.metrics import rows_of
from hopscope.training.progress import Progress, progress_of
from hopscope.training.recipe import Recipe
from hopscope.training.run import RunFolder
from hopscope.training.setup import Setup

PROBLEM = RetrievalProblem(hops=2, chains=1)
RECIPE = Recipe(
    layers=2, heads=2, d_model=16, steps=120, batch_size=32, log_every=5, final_steps=9, validation_size=8, mlp=False,
    examples=64, learning_rate=1e-2, schedule="when-learned", learned_below=0.97, fall=0.25, checkpoint_every=20,
)  # fmt: skip
FP32 = Execution(precision="fp32")
PRUNED = replace(RECIPE, prune_every=5, head_dropout=0.5, head_dropout_after=1)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Few sequences at the end, and models one by one, as they would go alone."""
    monkeypatch.setattr(trainer, "HELD_OUT", 8)
    monkeypatch.setattr(execution, "_POSITIONS_AT_ONCE", 1)


def runs(recipe: Recipe = RECIPE, seeds: tuple[int, ...] = (1, 2, 3, 4)) -> list[Setup]:
    return [Setup(f"arm/seed-{seed}", PROBLEM, recipe, (seed,)) for seed in seeds]


def files(folder: Path) -> dict[str, bytes]:
    """What a run says, but for what may differ: its execution, its training losses, its state."""
    skipped = {"run.json", "metrics.jsonl", "state.safetensors", ".writer"}
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in skipped
    }


@pytest.mark.parametrize("recipe", [RECIPE, PRUNED, replace(RECIPE, checkpoint_precision="bf16", checkpoint_every=7)])
def test_each_is_what_it_is_alone(recipe, tmp_path):
    setups = runs(recipe)
    train_all(setups, tmp_path / "alone", execution=replace(FP32, workers=1))
    assert not (tmp_path / "alone" / together.ASIDE).exists()
    train_all(setups, tmp_path / "together", execution=replace(FP32, workers=1), as_ensembles=True)
    assert [path.name for path in (tmp_path / "together").iterdir()] == ["arm"]
    alone, found = (finished(setups, tmp_path / name) for name in ("alone", "together"))
    assert len({run.result.steps for run in alone.values()}) > 1  # they end by themselves
    for name, run in found.items():
        other = alone[name]
        assert files(run.path) == files(other.path)
        assert run.result == other.result
        assert run.metrics.steps.tolist() == other.metrics.steps.tolist()
        for losses in ("validation_loss", "partial_losses", "heads"):
            assert np.array_equal(getattr(run.metrics, losses), getattr(other.metrics, losses), equal_nan=True)
        for losses in ("train_loss", "train_partial_losses"):
            assert getattr(run.metrics, losses) == pytest.approx(getattr(other.metrics, losses), rel=1e-5)
    assert not [one.trouble for one in check(tmp_path / "together") if one.trouble]


def test_several_processes_train_what_one_trains(monkeypatch, tmp_path):
    """Each an ensemble, and everybody is told of all of them meanwhile."""
    monkeypatch.undo()  # other processes would not hear of it
    recipe = replace(RECIPE, steps=40)
    slow = replace(recipe, steps=240, schedule="constant", checkpoint_every=None)  # so that it is seen at work
    setups = [*runs(recipe), *(replace(run, name=f"slow/{run.name}") for run in runs(slow))]
    seen: list[dict[str, Progress]] = []
    two_threads, one_thread = replace(FP32, threads=2), replace(FP32, threads=1)  # a thread a process: the same sums
    train_all(setups, tmp_path / "two", execution=replace(two_threads, workers=2), as_ensembles=True, watch=seen.append)
    train_all(setups, tmp_path / "one", execution=replace(one_thread, workers=1), as_ensembles=True)
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == ["arm", "slow"]
    two, one = (finished(setups, tmp_path / name) for name in ("two", "one"))
    assert set(two) == set(one) == {setup.name for setup in setups}
    for name, run in two.items():
        assert np.array_equal(run.metrics.partial_losses, one[name].metrics.partial_losses)
    assert all(set(stands) == set(one) for stands in seen)
    assert any(0 < stands.step < stands.steps for told in seen for stands in told.values())


@pytest.mark.parametrize("models", [1, 3, 64])
def test_a_step_that_is_being_written_is_not_told_yet(models, tmp_path):
    """Read at any byte, the metrics tell the last step that every model has a row of, each model its own loss."""
    setup = Setup("arm", PROBLEM, RECIPE, tuple(range(models)))
    path = tmp_path / "arm" / "metrics.jsonl"
    path.parent.mkdir()
    steps = [[replace(row, train_partial_losses=(0.1,) * 40) for row in rows_of(
        step, [[0.0]] * models, [[step + model / 64] for model in range(models)])] for step in range(1, 4)]  # fmt: skip
    texts = [row_lines(rows, "a run") for rows in steps]
    before = len("".join(texts[:-1]))
    whole = "".join(texts)
    for size in [0, 1, len(texts[0]) - 1, *range(before, len(whole) + 1, 97 if models > 3 else 1), len(whole)]:
        path.write_text(whole[:size])
        told = progress_of([setup], tmp_path)["arm"]
        step = 3 if size == len(whole) else 2 if size >= before else 0
        assert (told.step, told.partial_losses) == (step, tuple((step + m / 64,) for m in range(models) if step))


def test_what_a_kill_leaves_of_a_spent_ensemble_is_given_out(tmp_path):
    """Killed when one of its runs had its folder and the other had not, or one is there from elsewhere."""
    setups = runs(replace(RECIPE, steps=4, checkpoint_every=None))
    train_all(setups, tmp_path, execution=replace(FP32, workers=1), as_ensembles=True)
    before = files(tmp_path)
    apart = tmp_path / together.ASIDE / f"known{together._SPENT}" / together._APART / "arm"
    apart.mkdir(parents=True)
    (tmp_path / "arm" / "seed-1").rename(apart / "seed-1")
    shutil.copytree(tmp_path / "arm" / "seed-2", apart / "seed-2")
    (apart / "seed-2" / "result.json").write_text("{}")  # the one that is there stays
    train_all(setups, tmp_path, execution=replace(FP32, workers=1), as_ensembles=True)
    assert files(tmp_path) == before
    assert not (tmp_path / together.ASIDE).exists()


def test_it_goes_on_where_it_was_cut_short(tmp_path):
    """By the ensemble that was begun, though fewer runs or more are wanted now."""

    class Stopped(Exception):
        pass

    def stop(stands: dict[str, Progress]) -> None:
        if any(one.step == 40 for one in stands.values()):
            raise Stopped

    with pytest.raises(Stopped):
        train_all(runs(), tmp_path, execution=replace(FP32, workers=1), as_ensembles=True, watch=stop)
    (begun,) = (tmp_path / together.ASIDE).iterdir()
    wanted = runs(seeds=(2, 3, 5))
    (first,) = together.together(wanted, tmp_path, lambda _: True)
    assert (first.setup.seeds, [run.seeds for run in first.runs]) == ((1, 2, 3, 4), [(2,), (3,)])
    assert first.setup.name == f"{together.ASIDE}/{begun.name}"
    train_all(wanted, tmp_path, execution=replace(FP32, workers=1), as_ensembles=True)
    train_all(runs(seeds=(2, 3, 5)), tmp_path / "alone", execution=replace(FP32, workers=1))
    assert {path.name for path in (tmp_path / "arm").iterdir()} == {"seed-2", "seed-3", "seed-5"}
    others = runs(seeds=(1, 4))  # of the same ensemble, whose models nobody wanted before: they are trained
    (again,) = together.together(others, tmp_path, lambda _: True)
    assert RunFolder(tmp_path / again.setup.name).finished
    train_all(others, tmp_path, execution=replace(FP32, workers=1), as_ensembles=True)
    train_all(others, tmp_path / "alone", execution=replace(FP32, workers=1))
    for name, run in finished([*wanted, *others], tmp_path).items():
        assert files(run.path) == files(tmp_path / "alone" / name)


@pytest.mark.parametrize("workers", [1, 2])
def test_runs_that_are_wanted_under_two_names_are_trained_under_both(workers, monkeypatch, tmp_path):
    if workers > 1:
        monkeypatch.undo()  # other processes would not hear of it
    recipe = replace(RECIPE, steps=20, checkpoint_every=None)
    setups = [replace(run, name=f"{arm}/{run.name}") for arm in ("one", "two") for run in runs(recipe, (1, 2, 3))]
    choice, ensembles = replace(FP32, threads=workers), []
    plain = many._train_these_together
    monkeypatch.setattr(
        many, "_train_these_together", lambda found, *rest: (ensembles.extend(found), plain(found, *rest))
    )
    train_all(setups, tmp_path, execution=replace(choice, workers=workers), as_ensembles=True)
    assert [len(one.runs) for one in ensembles] == [3, 3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]
    assert len(finished(setups, tmp_path)) == 6
    assert files(tmp_path / "one") == files(tmp_path / "two")


def grouped(setups: list[Setup], folder: Path, most: int = 64) -> list[list[str]]:
    found = together.together(setups, folder, lambda one: len(one.seeds) <= most)
    return [[run.name for run in one.runs] for one in found]


def test_who_goes_together(tmp_path):
    several = Setup("several", PROBLEM, RECIPE, (8, 9))
    other = Setup("other", PROBLEM, replace(RECIPE, steps=121), (1,))
    jumps = runs(replace(RECIPE, checkpoint_jump_every=5))
    assert grouped([several, *runs(), other], tmp_path) == [[f"arm/seed-{seed}" for seed in (1, 2, 3, 4)]]
    assert grouped([several, other, *jumps], tmp_path) == []
    again = [replace(run, name=f"again/{run.name}") for run in runs(seeds=(1, 2))]
    twice = [*runs(seeds=(1, 2)), *again]  # both would train in one folder
    assert grouped(twice, tmp_path) == [["arm/seed-1", "arm/seed-2"]]
    for setup in runs(seeds=(1, 2)):
        (tmp_path / "there" / setup.name).mkdir(parents=True)
    assert grouped(twice, tmp_path / "there") == [["again/arm/seed-1", "again/arm/seed-2"]]
    other_seeds = [*twice, *(replace(run, name=f"again/{run.name}") for run in runs(seeds=(3,)))]
    assert grouped(other_seeds, tmp_path) == [
        ["arm/seed-1", "arm/seed-2", "again/arm/seed-3"], ["again/arm/seed-1", "again/arm/seed-2"],
    ]  # fmt: skip
    assert [len(one) for one in grouped(runs(seeds=tuple(range(10))), tmp_path, most=3)] == [2, 2, 3, 3]
    assert grouped(runs(), tmp_path, most=1) == []
    assert [len(one) for one in grouped(runs(seeds=tuple(range(100))), tmp_path)] == [50, 50]
    (tmp_path / "arm" / "seed-2").mkdir(parents=True)
    assert grouped(runs(), tmp_path) == [[f"arm/seed-{seed}" for seed in (1, 3, 4)]]


def test_what_is_in_the_way_is_named(tmp_path):
    (tmp_path / "arm" / "seed-2").mkdir(parents=True)
    (tmp_path / "arm" / "seed-2" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="seed-2 is in use and holds no hopscope run"):
        train_all(runs(replace(RECIPE, steps=4)), tmp_path, execution=replace(FP32, workers=1), as_ensembles=True)


def test_everybody_is_told_where_a_run_stands(tmp_path):
    seen: list[dict[str, Progress]] = []
    train_all(runs(), tmp_path, execution=replace(FP32, workers=1), as_ensembles=True, watch=seen.append)
    assert all(set(one) == {run.name for run in runs()} for one in seen)
    assert all(len(stands.partial_losses) == 1 for one in seen for stands in one.values())
    assert len({stands.partial_losses for stands in seen[0].values()}) == 4
    ends = {name: run.result.steps for name, run in finished(runs(), tmp_path).items()}
    assert {name: stands.step for name, stands in seen[-1].items()} == ends


KILLED = """
import sys
from pathlib import Path
import filelock
from killing import killed_everywhere
import hopscope.training.execution as execution
import hopscope.training.trainer as trainer
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.execution import Execution
from hopscope.training.many import train_all
from hopscope.training.recipe import Recipe
from hopscope.training.setup import Setup

trainer._SECONDS_BETWEEN_STATES, trainer.HELD_OUT, execution._POSITIONS_AT_ONCE = 0.0, 8, 1
recipe = Recipe(layers=1, heads=1, d_model=8, steps=4, batch_size=2, log_every=2, final_steps=1, validation_size=2,
                mlp=False, checkpoint_every=2)
setups = [Setup(f"run-{seed}", RetrievalProblem(hops=1, chains=2), recipe, (seed,)) for seed in (1, 2)]
root = Path(sys.argv[1])

def program(folder):
    train_all(setups, folder, execution=Execution(precision="fp32", workers=1), as_ensembles=True)

moments, alone = killed_everywhere(program, lambda name: root / name, every=5)
assert {"run-1/result.json", "run-2/result.json"} <= set(alone)
assert not [name for name in alone if ".together" in name]
print(moments)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks")
def test_a_kill_at_any_write_loses_nothing(tmp_path):
    support = Path(__file__).parent.parent / "support"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(support), *sys.path]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert int(shown.stdout) > 30
    assert RunFolder(next(tmp_path.rglob("run-1"))).finished
