"""A small share of `make attack`, seeded: odd options, damaged files, kills, flipped bits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="every case is a fork")
def test_nothing_is_lost_and_nothing_let_in():
    path = os.pathsep.join([str(HERE.parent / "support"), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    shown = subprocess.run(
        [sys.executable, str(HERE), "--cases=100", "--kills=12", "--flips=80", "--seed=1", "--workers=1"],
        env=environment, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert [row.split("|")[-3:-1] for row in shown.stdout.splitlines()[2:6]] == [
        [" 70 ", " 0 "], [" 30 ", " 0 "], [" 8 ", " 0 "], [" 80 ", " 0 "],
    ]  # fmt: skip
