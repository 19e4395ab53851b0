"""Many runs in several processes: the same as in one, finished ones untouched, errors raised."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from hopscope.errors import InputError
from hopscope.paper.section_7 import DepthStudy
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.records import row_lines
from hopscope.training.execution import Execution
from hopscope.training.metrics import rows_of
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.side_by_side import finished, progress_of, train_all
from hopscope.training.trainer import Progress

RECIPE = Recipe(
    layers=1, heads=2, d_model=16, steps=30, batch_size=8, log_every=5, final_steps=7, validation_size=8, mlp=False
)
FP32 = Execution(precision="fp32")
STUDY = DepthStudy("laptop", RECIPE, layers=(1, 2), hops=2, plain_hops=2, seeds=(0,), plain_seeds=(3,))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    seen: list[dict[str, Progress]] = []
    train_all(STUDY.setups(), folder / "sweep", progress=seen.append, execution=FP32)
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


def test_the_longest_run_comes_first(tmp_path):
    train_all(STUDY.setups()[:2], tmp_path, execution=replace(FP32, workers=1))
    ended = sorted(tmp_path.glob("*/result.json"), key=lambda path: path.stat().st_mtime_ns)
    assert (len(ended), ended[0].parent.name) == (2, "ic-layers-2-seed-0")


def test_a_finished_run_is_not_trained_again(trained):
    folder, _ = trained
    before = {path: path.stat().st_mtime_ns for path in (folder / "sweep").rglob("*.json*")}
    train_all(STUDY.setups(), f"{folder}/sweep")
    assert before == {path: path.stat().st_mtime_ns for path in (folder / "sweep").rglob("*.json*")}


@pytest.mark.parametrize("begun", ["ended", "under way"])
def test_runs_of_other_hops_are_refused_before_progress_is_reported(begun, trained, tmp_path):
    """Their rows have losses of other hops than a progress line names."""
    folder, _ = trained
    for name in ("ic-layers-1-seed-0", "ic-layers-2-seed-0"):
        shutil.copytree(folder / "sweep" / name, tmp_path / name)
        if begun == "under way":
            (tmp_path / name / "result.json").unlink()
    more = DepthStudy("laptop", RECIPE, layers=(1, 2), hops=3, plain_hops=2, seeds=(0,), plain_seeds=())
    reported: list[dict[str, Progress]] = []
    with pytest.raises(InputError, match="holds a run of hops = 2, not 3; use that or a new folder"):
        train_all(more.setups(), tmp_path, execution=replace(FP32, workers=1), progress=reported.append)
    assert not reported


def test_the_error_of_a_worker_is_raised(tmp_path):
    (tmp_path / "ic-layers-1-seed-0").mkdir()
    (tmp_path / "ic-layers-1-seed-0" / "other.txt").write_text("mine")
    with pytest.raises(InputError, match="ic-layers-1-seed-0"):
        train_all(STUDY.setups(), tmp_path, execution=Execution(workers=2))
    assert (tmp_path / "ic-layers-1-seed-0" / "other.txt").read_text() == "mine"


def test_progress_is_read_from_the_last_whole_row(tmp_path):
    """Read at any byte of the metrics."""
    setup = Setup("condition", RetrievalProblem(hops=2, chains=1), RECIPE, (1,))
    path = tmp_path / "condition" / "metrics.jsonl"
    path.parent.mkdir()
    texts = [row_lines(rows_of(step, [[0.0] * 40], [[float(step)]]), "a run") for step in range(1, 4)]
    before, whole = len("".join(texts[:-1])), "".join(texts)
    for size in [0, 1, len(texts[0]) - 1, *range(before, len(whole) + 1, 7), len(whole)]:
        path.write_text(whole[:size])
        found = progress_of([setup], tmp_path)["condition"]
        step = 3 if size == len(whole) else 2 if size >= before else 0
        assert (found.step, found.partial_losses) == (step, ((float(step),),) if step else ())
