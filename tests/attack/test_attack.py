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
        [sys.executable, str(HERE), "150", "1"], env=environment, capture_output=True, text=True, timeout=900
    )
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "flipped bits | 200 | 0" in shown.stdout
