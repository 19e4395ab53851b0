"""Setups on a real Ray cluster of this machine: the same bits, whoever is killed in the middle."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from hopscope.cli.training_verbs import sweep as command
from hopscope.errors import InputError
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.execution import Execution, RayCluster
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.side_by_side import progress_of, train_all
from hopscope.training.trainer import Progress

RECIPE = Recipe(
    layers=2, heads=2, d_model=16, steps=600, batch_size=8, log_every=50, final_steps=7, validation_size=8, mlp=False
)
CHOICE = Execution(precision="fp32", compiled=False)
SETUPS = [
    Setup(name, RetrievalProblem(hops=hops), RECIPE, seeds)
    for name, hops, seeds in (("one", 1, (0,)), ("two", 2, (0, 1)), ("three", 2, (5,)))
]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.suffix in ENDINGS}


pytestmark = pytest.mark.xdist_group("ray")

ENDINGS = (".jsonl", ".safetensors")


def workers() -> list[int]:
    """Processes of this machine that are training a setup for Ray."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                title = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if title.startswith(b"ray::_train"):
                found.append(int(process.name))
    return found


def under_way(folder: Path, above: int = 0) -> bool:
    return any(above < progress.step < progress.steps for progress in progress_of(SETUPS, folder).values())


def wait_until(condition, seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def cluster():
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    pytest.importorskip("ray", reason="ray is not installed, it is the extra `ray`")
    from ray.cluster_utils import Cluster

    here = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    yield here.address
    here.shutdown()


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The same setups, trained by this process undisturbed."""
    folder = tmp_path_factory.mktemp("alone")
    train_all(SETUPS, folder, execution=replace(CHOICE, threads=1, workers=1))  # as a worker has
    return contents(folder)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.skipif(not Path("/proc").exists(), reason="finds the workers to kill in /proc")
def test_killed_workers_lose_nothing(cluster, alone, tmp_path):
    killed = []

    def kill_some(_: dict[str, Progress]) -> None:
        if len(killed) < 2 and under_way(tmp_path):
            for pid in workers()[:1]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    train_all(SETUPS, tmp_path, execution=CHOICE, cluster=RayCluster(cluster), progress=kill_some)
    assert killed, "nothing was killed in the middle"
    assert contents(tmp_path) == alone
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    train_all(SETUPS, tmp_path, cluster=RayCluster("nowhere:1"))  # finished: no cluster is needed
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_errors_of_a_worker_and_missing_room_are_reported(cluster, tmp_path):
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "other.txt").write_text("mine")
    with pytest.raises(InputError, match="two"):
        train_all(SETUPS, tmp_path, cluster=RayCluster(cluster))
    assert (tmp_path / "two" / "other.txt").read_text() == "mine"
    with pytest.raises(InputError, match="needs 64 CPU"):
        train_all(SETUPS, tmp_path / "new", cluster=RayCluster(cluster, cpus_each=64))
    with pytest.raises(InputError, match=r"needs 0\.5 GPU"):
        train_all(SETUPS, tmp_path / "new", cluster=RayCluster(cluster, gpus_each=0.5))


def test_bad_shares_are_named(tmp_path):
    with pytest.raises(InputError, match=r"cpus_each must be a whole number of at least 1, got 0"):
        RayCluster(cpus_each=0)
    with pytest.raises(InputError, match=r"gpus_each must be a number of at least 0.*got -1"):
        RayCluster(gpus_each=-1)
    refused = CliRunner().invoke(command, [str(tmp_path), "--engine", "ray", "--cpus-each", "0"])
    assert "cpus_each must be a whole number of at least 1" in str(refused.exception)


@pytest.mark.parametrize(
    ("engine", "option"),
    [
        ("ray", "--device"),
        ("ray", "--workers"),
        ("here", "--address"),
        ("here", "--cpus-each"),
        ("here", "--gpus-each"),
    ],
)
def test_an_option_of_the_other_engine_is_refused(tmp_path, engine, option):
    refused = CliRunner().invoke(command, [str(tmp_path / "new"), "--engine", engine, option, "1"])
    assert f"leave {option} out" in str(refused.exception)
    assert not (tmp_path / "new").exists()


def test_without_ray_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install -c constraints.txt '\.\[ray\]'"):
        train_all(SETUPS, tmp_path, cluster=RayCluster())
