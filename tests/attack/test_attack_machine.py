"""What a machine does to a program, a case a test: `machine.py` has them, and one process goes through them all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NAMES = ("no_handles", "read_only_disk", "clock_set_back", "moved", "two_at_once")


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("machine")
    path = os.pathsep.join([str(HERE.parent / "support"), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE / "machine.py"), str(folder / "good"), str(folder / "room"), *NAMES]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800)
    lines = shown.stdout.splitlines()
    assert shown.returncode == int(bool(lines)), shown.stdout + shown.stderr
    return lines


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="forks, and counts files as Linux does")
@pytest.mark.xdist_group("attack on the machine")  # or each worker would go through them all
@pytest.mark.parametrize("name", NAMES)
def test_what_a_machine_does_loses_nothing(name: str, faults: list[str]) -> None:
    assert not [fault for fault in faults if fault.startswith(f"{name}: ")]
