"""Section 7: the study's setups, the judging of C3 to C5, and the whole way to the report."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hopscope.circuits.search.budget import Budget
from hopscope.errors import InputError
from hopscope.files import json_lines
from hopscope.paper.depth import DepthStudy, judge, summarise
from hopscope.paper.followed import follow
from hopscope.paper.presets import LAPTOP, PAPER, Preset
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.records import plain
from hopscope.report.reproduction import write_report
from hopscope.training.many import finished, train_all
from hopscope.training.metrics import rows_of
from hopscope.training.progress import Progress, progress_of
from hopscope.training.recipe import Recipe
from hopscope.training.setup import Setup

RECIPE = Recipe(
    layers=1, heads=2, d_model=16, steps=30, batch_size=8, log_every=5, final_steps=7, validation_size=8, mlp=False
)
STUDY = DepthStudy("laptop", RECIPE, layers=(1, 2), hops=2, plain_hops=2, seeds=(0, 1), plain_seeds=(3,))
TINY = Preset("laptop", "tiny", STUDY, transformers=(), compared=(), watched=(), effort="quick")


def group(curriculum=True, layers=2, final=(0.1,), partial=((0.1, 0.1),), crossings=((10, 20),)):
    return {
        "hops": 2, "chains": 4, "curriculum": curriculum, "layers": layers, "seeds": list(range(len(final))),
        "final_validation_loss": list(final), "final_partial_losses": [list(p) for p in partial],
        "crossings": [list(c) for c in crossings], "run": "sweep/x",
    }  # fmt: skip


def verdicts(*groups):
    return {finding["id"]: finding for finding in judge(STUDY, groups, "sweep")}


def test_c3_wants_every_run_above_0_7():
    kept = verdicts(group(False, final=(0.75, 0.71)))["C3"]
    assert (kept["verdict"], kept["interval"]) == ("reproduced", (0.71, 0.75))
    assert "2 of 2" in kept["ours"]
    broken = verdicts(group(False, 1, final=(0.75,)), group(False, 2, final=(0.75, 0.69)))["C3"]
    assert broken["verdict"] == "not reproduced"
    assert "0.690" in broken["ours"]
    assert verdicts(group(False, final=(None, 0.8)))["C3"]["verdict"] == "reproduced"
    assert verdicts(group(True))["C3"]["verdict"] == "not run"


def test_c4_wants_later_hops_to_need_more_layers():
    shallow, deep = group(layers=1, partial=[(0.2, 0.7)]), group(layers=2, partial=[(0.1, 0.2)])
    found = verdicts(shallow, deep)["C4"]
    assert found["verdict"] == "reproduced"
    assert "x1 from 1 layer (1 of 1 seeds), x2 from 2 layers (1 of 1 seeds)" in found["ours"]
    assert verdicts(shallow, group(layers=2, partial=[(0.1, 0.6)]))["C4"]["verdict"] == "reproduced"
    assert verdicts(group(layers=1), deep)["C4"]["verdict"] == "not reproduced"  # both hops from one layer
    assert verdicts(group(layers=1, partial=[(0.7, 0.2)]), deep)["C4"]["verdict"] == "not reproduced"
    assert verdicts(deep)["C4"]["verdict"] == "not run"
    lucky = verdicts(shallow, group(layers=2, final=(1, 1), partial=[(0.1, 0.2), (0.1, None)]))["C4"]
    assert "x2 from 2 layers (1 of 2 seeds)" in lucky["ours"]
    assert "0.100 diverged" in lucky["ours"]
    never = verdicts(shallow, group(layers=2, partial=[(0.1, 0.9)]))["C4"]
    assert "x2 at no depth tried" in never["ours"]


def test_c5_wants_every_run_in_order():
    assert verdicts(group(crossings=[(10, 20), (5, None)]))["C5"]["verdict"] == "reproduced"
    for crossings in ((20, 10), (10, 10), (None, 10)):
        found = verdicts(group(crossings=[(10, 20), crossings]))["C5"]
        assert found["verdict"] == "not reproduced"
        assert "1 of 2" in found["ours"]
    assert verdicts(group(crossings=[(10, None), (None, None)]))["C5"]["verdict"] == "not run"


def test_the_paper_preset_is_the_papers():
    study = PAPER.depth
    assert (study.layers, len(study.seeds), len(study.plain_seeds)) == (tuple(range(1, 9)), 8, 8)
    assert (study.hops, study.plain_hops) == (5, 3)
    assert len(study.setups()) == 16
    assert {1, 2, 3, 4} <= set(LAPTOP.depth.layers)
    assert LAPTOP.depth.hops == 3
    assert len(LAPTOP.depth.seeds) > 1


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


def test_the_report_of_a_reproduction(trained):
    folder, _ = trained
    claims = write_report(folder, TINY)
    assert [claim.id for claim in claims] == [f"C{n}" for n in range(1, 16)]
    by_id = {claim.id: claim for claim in claims}
    assert by_id["C3"].verdict == "reproduced"  # 30 steps learn nothing
    assert by_id["C14"].verdict == "not run"
    rows = json.loads((folder / "claims.json").read_text())
    assert set(rows[0]) == {"id", "title", "paper", "ours", "interval", "scale", "verdict", "run"}
    page = (folder / "report.html").read_text()
    assert "Training by depth" in page
    assert f"{by_id['C3'].ours}" in page
    for figure in ("figure-4-left", "figure-4-right", "training"):
        for ending in ("png", "svg", "pdf"):
            assert (folder / "figures" / f"{figure}.{ending}").stat().st_size > 1000


def test_a_benchmark_in_the_folder_joins_the_report(trained, tmp_path):
    folder, _ = trained
    shutil.copytree(folder, tmp_path / "with")
    point = {
        "model": "own", "formulation": "equations", "hops": 1, "accuracy": 0.9, "low": 0.8, "high": 0.95, "guess": 0.25,
        "shortcut": 0.25, "accepted": 50, "asked": 50,
    }  # fmt: skip
    (tmp_path / "with" / "benchmark").mkdir()
    (tmp_path / "with" / "benchmark" / "summary.json").write_text(json.dumps({"points": [point]}))
    claims = {claim.id: claim for claim in write_report(tmp_path / "with", TINY)}
    assert claims["C14"].verdict == "not run"  # one point is not the whole benchmark
    assert "1 in part" in claims["C14"].ours
    assert claims["C15"].verdict == "reproduced"
    assert "Language models on the text" in (tmp_path / "with" / "report.html").read_text()
    assert (tmp_path / "with" / "figures" / "figure-2.png").stat().st_size > 1000


def test_transformers_trained_by_themselves_join_the_report(tmp_path):
    """A, B, C and D in small, far from having learned: each claim about them is judged, and none is met."""
    recipe = replace(RECIPE, checkpoint_every=15)
    singles = tuple(Setup(name, RetrievalProblem(hops=2), recipe, (seed,)) for seed, name in enumerate("abcd"))
    compared, watched = tuple(f"transformers/{name}" for name in "abc"), ("transformers/d",)
    preset = replace(TINY, name="paper", transformers=singles, compared=compared, watched=watched)
    before = {claim.id: claim.verdict for claim in write_report(tmp_path, preset)}
    assert before["C6"] == before["C12"] == "not run"
    train_all(singles, tmp_path / "transformers", precision="fp32")
    runs = preset.finished(tmp_path, (*watched, *compared, *watched))
    assert [run.path.name for run in runs] == ["d", "a", "b", "c"]
    follow(runs, Budget(orders=1, growing=0, sequences=16, confirming=16), workers=1)
    claims = {claim.id: claim for claim in write_report(tmp_path, preset)}
    assert (claims["C6"].verdict, claims["C12"].verdict) == ("not reproduced", "not reproduced")
    assert all(f"{name} 1." in claims["C6"].ours or f"{name} 0." in claims["C6"].ours for name in "ABC")
    assert claims["C12"].ours.endswith("no circuit in 1 of 1 models")
    assert claims["C7"].verdict == claims["C13"].verdict == "not run"
    page = (tmp_path / "report.html").read_text()
    assert all((tmp_path / "figures" / f"circuit-{name}.png").exists() for name in "abc")
    assert "Circuits (Section" in page


def test_crossings_are_the_first_steps_below_one_half(trained):
    folder, _ = trained
    run = finished(STUDY.setups(), folder / "sweep")["ic-layers-2"]
    assert summarise(run, "x")["crossings"] == [[None, None], [None, None]]
    for step, model, hop in {(20, 0, 0), (15, 1, 1), (30, 1, 1), (30, 0, 1)}:
        run.metrics.partial_losses[run.metrics.steps.tolist().index(step), model, hop] = 0.4
    assert summarise(run, "x")["crossings"] == [[20, 30], [None, 15]]


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
        "from test_paper_depth import *;"
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
