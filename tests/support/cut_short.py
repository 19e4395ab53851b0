"""A run that its watcher cuts short and that then goes on, and what its folder holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopscope.training.execution import Execution
from hopscope.training.progress import Progress
from hopscope.training.recipe import Setup
from hopscope.training.trainer import train


class Cut(Exception):
    """A run is stopped by its watcher."""


def train_in_two(setup: Setup, folder: Path, cut: int, engine: Execution) -> None:
    """Stop at the first row of metrics from step `cut` on, and train on from what is on disk."""

    def stop(progress: Progress) -> None:
        if progress.step >= cut:
            raise Cut

    with pytest.raises(Cut):
        train(setup, folder, execution=engine, watch=stop)
    train(setup, folder, execution=engine)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, by its path there."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
