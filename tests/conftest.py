"""Runtime shape checks for the whole package, in tests only."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side, a process a core
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of processes are started: each would compile the package
# As in `hopscope.processes.tune_process`, here for the tests' workers: what is freed is needed again.
os.environ |= {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1)}

# A core each: what would use several threads of one process takes one, where two would wait for each other.
if (worker := os.environ.get("PYTEST_XDIST_WORKER")) and hasattr(os, "sched_setaffinity"):
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[int(worker[2:]) % len(cores)]})

import gc
import signal
from pathlib import Path

import jaxtyping
import pytest
from hypothesis import settings
from jaxtyping import install_import_hook
from unchecked import Sparing

SOURCE = Path(__file__).parents[1] / "src"


def with_shapes(package: str) -> list[str]:
    """Modules of a package with shapes in their signatures; in others there is nothing to check."""
    files = sorted((SOURCE / package.replace(".", "/")).rglob("*.py"))
    return [
        ".".join(file.relative_to(SOURCE).with_suffix("").parts)
        for file in files
        if file.name != "__init__.py" and "from jaxtyping import" in file.read_text()
    ]


# Tensor signatures are checked at calls. What torch.compile traces is tested uncompiled: the two do not mix.
install_import_hook(
    [
        "hopscope.problem.counter",
        "hopscope.problem.vectors",
        "hopscope.model.hooks",
        "hopscope.model.fast",
        "hopscope.model.transformer",
        "hopscope.training.data",
        "hopscope.training.ensemble",
        "hopscope.training.metrics",
        "hopscope.training.run",
        "hopscope.training.trainer",
        *with_shapes("hopscope.lab"),
        *with_shapes("hopscope.theory.witness"),
        *with_shapes("hopscope.circuits"),
        *with_shapes("hopscope.emergence"),
        "hopscope.benchmark.local",
        "hopscope.benchmark.weighing",
        "examples.text_model",
    ],
    "beartype.beartype",
)

jaxtyping.config.__class__ = Sparing


@pytest.fixture(autouse=True)
def _shapes_are_checked_anew() -> None:
    Sparing.calls.clear()


# A shell that runs the tests in the background has them ignore Ctrl-C, and what they start would too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("hopscope", deadline=None, max_examples=25)
settings.load_profile("hopscope")


@pytest.fixture(scope="session")
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The tiny reproduction, and what was said; shared by the xdist group `reproduce`, so nobody may change it."""
    from click.testing import CliRunner

    from hopscope.cli.training_verbs import reproduce as command

    folder = tmp_path_factory.mktemp("reproduced") / "tiny"
    asked = ["--preset", "tiny", "--out", str(folder), "--workers", "2", "--precision", "fp32"]
    result = CliRunner().invoke(command, asked)
    assert result.exit_code == 0, result.output
    return folder, result.stdout


def pytest_collection_finish() -> None:
    """What is there by now stays: nobody need look through it again and again for what can go."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first, or one core would wait at the end for another's last test of a minute."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
