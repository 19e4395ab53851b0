"""A compact copy of a run: all that its pages are made of, and weights in the precision that a page has."""

from __future__ import annotations

import shutil
from pathlib import Path

from torch import Tensor

from hopscope.circuits.store import circuit_path
from hopscope.emergence.track import emergence_path, maps_over_time_path
from hopscope.errors import InputError
from hopscope.explorer.arrays import half
from hopscope.training.recipe import Setup
from hopscope.training.run import RunFolder


def compact_export(run: RunFolder, folder: Path) -> RunFolder:
    """Copy a finished run compactly: its record, metrics, result, circuits with their emergence, and its last weights.

    Weights are in half precision, a tenth of what a run takes on the disk; the page of the copy is the page of the run.
    Nothing can be resumed from it, and other checkpoints are not there.

    Args:
        run: a finished run, with its last checkpoint.
        folder: a new or empty folder.

    Raises:
        InputError: the run is not finished, or the folder holds something else.
    """
    if not run.finished:
        raise InputError(f"{run.path} is not finished; train it to its end before it is copied")
    inside = run.path.resolve() in folder.resolve().parents
    if inside or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        why = f"lies in the run {run.path}" if inside else "is in use"
        raise InputError(f"{folder} {why}; choose a new or empty folder for the copy")
    end = run.schedule.end
    weights = half(run.transformer(end)).state_dict()
    copy = RunFolder.create(folder, Setup(folder.name, run.problem, run.recipe, run.seeds), run.execution)
    copy.append_metrics(run.rows())
    copy.save_checkpoint(end, {name: _small(weight) for name, weight in weights.items()}, last=True)
    for number in range(len(run.seeds)):
        for path in (circuit_path, emergence_path, maps_over_time_path):
            if path(run.path, number).exists():
                shutil.copyfile(path(run.path, number), path(copy.path, number))
    copy.finish(run.result)
    return copy


def _small(weight: Tensor) -> Tensor:
    """The weight in half precision where that loses nothing."""
    small = weight.half()
    return small if small.float().equal(weight) else weight
