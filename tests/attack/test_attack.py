"""The attack on the command line, in a process of its own: every case is a fork, which wants one thread."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="every case is a fork")
def test_nothing_is_lost_and_nothing_let_in():
    shown = subprocess.run(
        [sys.executable, str(Path(__file__).parent), "--cases=100", "--seed=1"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True, timeout=1800,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert shown.stdout.startswith("212 cases, 0 faults")
