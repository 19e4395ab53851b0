"""Many runs: what several processes train, what is kept, what is heard."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from small_runs import note

from hopscope.errors import InputError
from hopscope.paper.section_7 import DepthStudy
from hopscope.training.execution import REFERENCE, Execution
from hopscope.training.progress import Progress
from hopscope.training.recipe import Recipe
from hopscope.training.run import RunFolder
from hopscope.training.side_by_side import finished, train_all

RECIPE = Recipe(
    layers=1, heads=2, d_model=16, steps=30, batch_size=8, log_every=5, final_steps=7, validation_size=8, mlp=False
)
FP32 = Execution(precision="fp32")
STUDY = DepthStudy("laptop", RECIPE, layers=(1, 2), hops=2, plain_hops=2, seeds=(0,), plain_seeds=(3,))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    seen: list[dict[str, Progress]] = []
    train_all(STUDY.setups(), folder / "sweep", watch=seen.append, execution=FP32)
    return folder, seen


def test_processes_train_what_one_process_trains(trained, tmp_path):
    folder, seen = trained
    assert all(progress.step == progress.steps for progress in seen[-1].values())
    assert set(seen[-1]) == {
        "ic-layers-1-seed-0",
        "ic-layers-2-seed-0",
        "non-ic-layers-1-seed-3",
        "non-ic-layers-2-seed-3",
    }
    train_all(STUDY.setups(), tmp_path, execution=replace(FP32, workers=1))
    for name, run in finished(STUDY.setups(), tmp_path).items():
        there = finished(STUDY.setups(), folder / "sweep")[name]
        assert len(run.metrics) > 0
        assert run.metrics.validation_loss == pytest.approx(there.metrics.validation_loss, rel=1e-4)


@pytest.mark.parametrize(("in_order", "first"), [(True, "ic-layers-1-seed-0"), (False, "ic-layers-2-seed-0")])
def test_the_longest_run_comes_first_unless_the_order_is_kept(in_order, first, tmp_path):
    train_all(STUDY.setups()[:2], tmp_path, execution=replace(FP32, workers=1), in_order=in_order)
    ended = sorted(tmp_path.glob("*/result.json"), key=lambda path: path.stat().st_mtime_ns)
    assert (len(ended), ended[0].parent.name) == (2, first)


@pytest.mark.slow
def test_a_run_is_handed_on_by_the_process_that_trained_it_while_others_train(tmp_path):
    seen: list[dict[str, Progress]] = []
    then = {"ic-layers-1-seed-0": partial(note, word="hello")}
    train_all(STUDY.setups(), tmp_path, execution=replace(FP32, workers=2), then=then, watch=seen.append)
    assert json.loads((tmp_path / "ic-layers-1-seed-0" / "note.json").read_text()) == ["hello", 1, True]
    assert [path.parent.name for path in tmp_path.glob("*/note.json")] == ["ic-layers-1-seed-0"]
    busy = [{name for name, progress in one.items() if progress.then} for one in seen]
    assert {"ic-layers-1-seed-0"} in busy
    assert not busy[-1]
    assert set().union(*busy) == {"ic-layers-1-seed-0"}


def test_one_process_hands_a_run_on_before_it_trains_the_next(tmp_path):
    """Else a study that is cut short on one core leaves trained models without a circuit."""
    handed: list[tuple[str, int]] = []

    def count(path: Path) -> None:
        handed.append((path.name, len(list(tmp_path.glob("*/result.json")))))

    setups = STUDY.setups()[:2]
    train_all(
        setups,
        tmp_path,
        execution=replace(FP32, workers=1),
        in_order=True,
        then={setup.name: count for setup in setups},
    )
    assert handed == [("ic-layers-1-seed-0", 1), ("ic-layers-2-seed-0", 2)]


def test_what_is_finished_is_not_trained_again(trained):
    folder, _ = trained
    before = {path: path.stat().st_mtime_ns for path in (folder / "sweep").rglob("*.json*")}
    train_all(STUDY.setups(), folder / "sweep")
    assert before == {path: path.stat().st_mtime_ns for path in (folder / "sweep").rglob("*.json*")}


@pytest.mark.parametrize("begun", ["ended", "under way"])
def test_runs_of_other_hops_are_refused_before_they_are_told_of(begun, trained, tmp_path):
    """Their rows have other losses than a bar has places for."""
    folder, _ = trained
    for name in ("ic-layers-1-seed-0", "ic-layers-2-seed-0"):
        shutil.copytree(folder / "sweep" / name, tmp_path / name)
        if begun == "under way":
            (tmp_path / name / "result.json").unlink()
    more = DepthStudy("laptop", RECIPE, layers=(1, 2), hops=3, plain_hops=2, seeds=(0,), plain_seeds=())
    told: list[dict[str, Progress]] = []
    with pytest.raises(InputError, match="holds a run with hops = 2, not 3; choose another folder"):
        train_all(more.setups(), tmp_path, execution=replace(FP32, workers=1), watch=told.append)
    assert not told


def test_a_failing_worker_is_heard(tmp_path):
    (tmp_path / "ic-layers-1-seed-0").mkdir()
    (tmp_path / "ic-layers-1-seed-0" / "other.txt").write_text("mine")
    with pytest.raises(InputError, match="ic-layers-1-seed-0"):
        train_all(STUDY.setups(), tmp_path, execution=Execution(workers=2))
    assert (tmp_path / "ic-layers-1-seed-0" / "other.txt").read_text() == "mine"


@pytest.mark.slow
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core")
@pytest.mark.parametrize(("threads", "workers", "said"), [(2, 2, True), (1, 2, False), (2, 1, False)])
def test_runs_begun_on_more_threads_than_a_worker_has_are_named(threads, workers, said, tmp_path, caplog):
    setups = STUDY.setups()[:2]
    RunFolder.create(tmp_path / setups[1].name, setups[1], replace(REFERENCE, threads=threads))
    train_all(setups, tmp_path, execution=replace(FP32, workers=workers))
    assert (f"1 run in {tmp_path} begun on more threads" in caplog.text) == said
    assert (f"such as {setups[1].name}:" in caplog.text) == said
    assert len(finished(setups, tmp_path)) == 2
