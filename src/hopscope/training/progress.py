"""The progress of a run, reported while it trains and read from its folder by others."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from hopscope.training.metrics import MetricsRow
from hopscope.training.recipe import Setup

_TAIL = 16384
"""Bytes of a run's metrics that are read first; a row has a few hundred."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    Attributes:
        step: updates done.
        steps: updates in all, as far as this is known.
        partial_losses: latest validation losses by model and hop asked for; None where a model diverged.
        steps_per_second: speed since the first row of metrics after the run started or resumed; None before, and where
            it is not measured.
        core_share: share of that time that the training thread was on a core, almost 1 on a quiet machine; None before,
            and where it is not measured.
        then: whether the run is trained and what is done with it afterwards (see `train_all`) is not yet finished.
    """

    step: int
    steps: int
    partial_losses: tuple[tuple[float | None, ...], ...] = ()
    steps_per_second: float | None = None
    core_share: float | None = None
    then: bool = False

    @property
    def ended(self) -> bool:
        """Whether nothing is left to train."""
        return self.step == self.steps


def progress_of(setups: Iterable[Setup], folder: Path) -> dict[str, Progress]:
    """The progress of every run, by the setup's name, read from its folder; a run without a folder is at step 0."""
    found = {}
    for setup in setups:
        rows = _last_rows(folder / setup.name / "metrics.jsonl", len(setup.seeds))
        step, steps = rows[0].step if rows else 0, setup.recipe.steps
        losses = tuple(row.partial_losses for row in rows)
        if (folder / setup.name / "result.json").exists():
            step = steps = step or steps  # whoever opens a finished run without rows is told that they are missing
        found[setup.name] = Progress(step, steps, losses)
    return found


def _last_rows(path: Path, models: int) -> list[MetricsRow]:
    """The rows of the last step for which every model has one; empty if there is none, or if rows are damaged.

    The latest step may be only half written, with rows of some models and not of others.
    """
    most, start = _TAIL, 1
    try:
        while start:  # from the end, as far back as it takes
            with path.open("rb") as file:
                start = max(0, file.seek(0, os.SEEK_END) - most)
                file.seek(start)
                lines = file.read().split(b"\n")[1 if start else 0 : -1]
            rows = [msgspec.json.decode(line, type=MetricsRow) for line in lines[-2 * models :]]
            for end in range(len(rows), models - 1, -1):
                step = rows[end - models : end]
                if [row.model for row in step] == list(range(models)):
                    return step
            most *= 4
    except (OSError, ValueError):
        pass
    return []
