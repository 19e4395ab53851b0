"""Many runs: what several processes train, what is kept, what is heard."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hopscope.errors import InputError
from hopscope.files import json_lines
from hopscope.paper.section_7 import DepthStudy
from hopscope.records import plain
from hopscope.training.many import finished, train_all
from hopscope.training.metrics import rows_of
from hopscope.training.progress import Progress, progress_of
from hopscope.training.recipe import Recipe

RECIPE = Recipe(
    layers=1, heads=2, d_model=16, steps=30, batch_size=8, log_every=5, final_steps=7, validation_size=8, mlp=False
)
STUDY = DepthStudy("laptop", RECIPE, layers=(1, 2), hops=2, plain_hops=2, seeds=(0, 1), plain_seeds=(3,))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    seen: list[dict[str, Progress]] = []
    train_all(STUDY.setups(), folder / "sweep", watch=seen.append, precision="fp32")
    return folder, seen


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name in ("metrics.jsonl", "result.json")
    }


def test_processes_train_what_one_process_trains(trained, tmp_path):
    folder, seen = trained
    assert all(progress.step == progress.steps for progress in seen[-1].values())
    assert set(seen[-1]) == {"ic-layers-1", "ic-layers-2", "non-ic-layers-1", "non-ic-layers-2"}
    train_all(STUDY.setups(), tmp_path, workers=1, precision="fp32")
    for name, run in finished(STUDY.setups(), tmp_path).items():
        there = finished(STUDY.setups(), folder / "sweep")[name]
        assert len(run.metrics) > 0
        assert run.metrics.validation_loss == pytest.approx(there.metrics.validation_loss, rel=1e-4)


def test_what_is_finished_is_not_trained_again(trained):
    folder, _ = trained
    before = {path: path.stat().st_mtime_ns for path in (folder / "sweep").rglob("*.json*")}
    train_all(STUDY.setups(), folder / "sweep")
    assert before == {path: path.stat().st_mtime_ns for path in (folder / "sweep").rglob("*.json*")}


def test_another_study_in_the_folder_is_named(trained):
    folder, _ = trained
    with pytest.raises(InputError, match="steps = 30, not 31"):
        finished(replace(STUDY, recipe=replace(RECIPE, steps=31)).setups(), folder / "sweep")


def test_progress_reads_a_torn_line(tmp_path):
    losses = {step: [[step / 10, float("nan")]] * 2 for step in (5, 10)}
    rows = [plain(row) for step in (5, 10) for row in rows_of(step, losses[step], losses[step])]
    (tmp_path / "ic-layers-1").mkdir()
    (tmp_path / "ic-layers-1" / "metrics.jsonl").write_text(json_lines(rows * 200) + '{"step": 15, "mo')
    progress = progress_of(STUDY.setups(), tmp_path)
    assert (progress["ic-layers-1"].step, progress["ic-layers-1"].partial_losses[0]) == (10, (1.0, None))
    assert progress["ic-layers-2"] == Progress(0, 30)


def test_a_failing_worker_is_heard(tmp_path):
    (tmp_path / "ic-layers-1").mkdir()
    (tmp_path / "ic-layers-1" / "other.txt").write_text("mine")
    with pytest.raises(InputError, match="ic-layers-1"):
        train_all(STUDY.setups(), tmp_path, workers=2)
    assert (tmp_path / "ic-layers-1" / "other.txt").read_text() == "mine"


@pytest.mark.slow
def test_killed_at_random_and_finished_gives_the_same_metrics(trained, tmp_path):
    """SIGKILL of the parent: its workers must go too, or two of them would write one folder."""
    program = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[2]);"
        "from test_training_many import *;"
        "train_all(STUDY.setups(), Path(sys.argv[1]), precision='fp32', watch=lambda _: None)"
    )
    script = tmp_path / "main.py"
    script.write_text(f"if __name__ == '__main__':\n    {program}\n")
    command = [sys.executable, str(script), str(tmp_path / "sweep"), str(Path(__file__).parent)]
    generator = random.Random(1)
    for _ in range(3):
        process = subprocess.Popen(command)
        time.sleep(generator.uniform(4, 9))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    subprocess.run(command, check=True)
    assert contents(tmp_path / "sweep") == contents(trained[0] / "sweep")
