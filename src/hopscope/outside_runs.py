"""Run folders hold only files of their run: everything else goes elsewhere, and is refused there."""

from __future__ import annotations

from pathlib import Path

from hopscope.errors import InputError


def check_no_run(folder: Path) -> None:
    """Check that a folder for something other than a run is not a run folder, nor inside one.

    Raises:
        InputError: the folder is a run, or inside one.
    """
    if (folder / "run.json").exists():
        raise InputError(f"{folder} is a run; choose another folder")
    check_in_no_run(folder)


def check_in_no_run(path: Path) -> None:
    """Check that a path is not inside a run folder, which holds only files of the run.

    Raises:
        InputError: the path is inside a run folder.
    """
    for around in path.resolve().parents:
        if (around / "run.json").exists():
            raise InputError(f"{path} lies in {around}, which is a run; choose a place outside it")
