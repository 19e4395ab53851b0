"""What a machine does to a program, a case a test: `machine.py` has them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def run(name: str, good: Path, room: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(HERE.parent / "support"), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE / "machine.py"), name, str(good), str(room)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good") / "good"
    made = run("make", folder, folder)
    assert made.returncode == 0, made.stderr
    return folder


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="forks, and counts files as Linux does")
@pytest.mark.xdist_group("attack on the machine")  # or each worker would make the good folders
@pytest.mark.parametrize("name", ["no_handles", "read_only_disk", "clock_set_back", "moved", "two_at_once"])
def test_what_a_machine_does_loses_nothing(name: str, good: Path, tmp_path: Path) -> None:
    shown = run(name, good, tmp_path / "room")
    assert (shown.returncode, shown.stdout) == (0, ""), shown.stdout + shown.stderr
