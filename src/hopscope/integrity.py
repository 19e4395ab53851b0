"""`hopscope check`: which files of a folder still hold what was written there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hopscope.benchmark.results import Results
from hopscope.errors import UNTOUCHED, InputError
from hopscope.files import read_json
from hopscope.paper.claims import read_claims
from hopscope.records import check_seal, read_lines
from hopscope.tensor_files import load_tensors
from hopscope.training.run import RunFolder
from hopscope.training.seed_ensembles import ENSEMBLES

_OWNERS: dict[str, Callable[[Path], RunFolder | Results]] = {"run.json": RunFolder, "benchmark.json": Results}
"""The files that name a run, or a benchmark, to which the files around them belong."""

_ALONE = ("metrics.jsonl", "state.safetensors")
"""Files that are nothing without a run."""


@dataclass(frozen=True)
class Checked:
    """The result of checking a file: what is wrong, in a sentence; empty if nothing is."""

    file: str
    trouble: str = ""


def check(folder: Path) -> list[Checked]:
    """Check a run folder, a benchmark's folder, or a folder that holds such folders, and our other records in it.

    A run may be training there meanwhile.

    Raises:
        InputError: it is not a folder, or holds none of these.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give the folder of a run, or what holds runs or a benchmark")
    files = [path for path in sorted(folder.rglob("*.*")) if ENSEMBLES not in path.parts]
    owned = {path.parent: _OWNERS[path.name] for path in files if path.name in _OWNERS}
    found = [one for owner, open_folder in owned.items() for one in _check_owner(owner, open_folder, files)]
    for path in files:
        if not owned.keys() & {*path.parents}:
            if path.name in _ALONE:
                missing = path.with_name("run.json")
                found.append(Checked(str(missing), f"{missing} is missing, and {path.name} of a run is there"))
            elif path.suffix == ".json" and _is_ours(path):
                found.append(Checked(str(path), _trouble(partial(_check_file, path, None))))
    if not found:
        raise InputError(f"{folder} holds no run, no benchmark and no other record; give a folder that does")
    return found


def _check_owner(folder: Path, open_folder: Callable[[Path], RunFolder | Results], files: list[Path]) -> list[Checked]:
    """Check a run or a benchmark: every file by itself, and if they are whole, that none is missing."""
    try:
        owner = open_folder(folder)
    except InputError as error:
        return [Checked(str(folder), str(error))]
    found = [
        Checked(str(path), _trouble(partial(_check_file, path, owner.hash)))
        for path in files
        if folder in path.parents and owner.owns(path)
    ]
    if not any(one.trouble for one in found) and (trouble := _trouble(owner.check_complete)):
        found.append(Checked(str(folder), trouble))
    return found


def _is_ours(path: Path) -> bool:
    """Whether a file beside runs and benchmarks is a record; a file that is not readable as JSON counts as one."""
    try:
        fields = read_json(path, "a record")
    except (InputError, OSError):
        return True
    return path.name == "claims.json" or (isinstance(fields, dict) and ("kind" in fields or "seal" in fields))


def _check_file(path: Path, run: str | None) -> None:
    """Check that a file's content fits its checksum, and that it belongs to a run; to any, if `run` is None."""
    if path.suffix == ".safetensors":
        load_tensors(path, run or "")
    elif path.suffix == ".jsonl":
        read_lines(path, "rows", run or "")
    elif path.name == "claims.json":
        read_claims(path)
    else:
        fields = read_json(path, "a record")
        if not isinstance(fields, dict):
            raise InputError(f"{path} is not a record; {UNTOUCHED}")
        check_seal(path, fields, run)


def _trouble(look: Callable[[], object]) -> str:
    try:
        look()
    except (InputError, OSError) as error:
        return str(error)
    return ""
