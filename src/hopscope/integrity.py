"""`hopscope check`: find the files of a folder that have changed since they were written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hopscope.benchmark.results import Results
from hopscope.errors import UNTOUCHED, InputError
from hopscope.paper.claims import read_claims
from hopscope.records import check_seal, load_tensors, read_json, read_rows
from hopscope.training.run import RunFolder

_OWNERS: dict[str, Callable[[Path], RunFolder | Results]] = {"run.json": RunFolder, "benchmark.json": Results}
"""The file that marks the folder of a run or a benchmark, and the class that opens the folder."""


@dataclass(frozen=True)
class Checked:
    """The result of checking a file; `trouble` is a sentence that says what is wrong, or empty."""

    file: str
    trouble: str = ""

    @classmethod
    def by(cls, path: Path, check: Callable[..., object], *arguments: Any) -> Checked:
        """Return the result of checking `path`: the message of an error that `check` raises, or no trouble."""
        try:
            check(*arguments)
        except (InputError, OSError) as error:
            return cls(str(path), str(error))
        return cls(str(path))


def check(folder: Path) -> list[Checked]:
    """Check a run folder, a benchmark folder, or a folder that contains such folders or other hopscope records.

    A run in the folder may still be training.

    Raises:
        InputError: the path is not a folder, or the folder contains no run, benchmark or record.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give the folder of runs or of a benchmark")
    files = sorted(folder.rglob("*.*"))
    opened = {path.parent: _OWNERS[path.name] for path in files if path.name in _OWNERS}
    found = [result for owner, open_folder in opened.items() for result in _check_owner(owner, open_folder, files)]
    for path in files:
        if not opened.keys() & {*path.parents}:
            if path.name in ("metrics.jsonl", "state.safetensors"):
                missing = path.with_name("run.json")
                found.append(Checked(str(missing), f"{missing} is missing, but {path.name} of its run exists"))
            elif path.suffix == ".json" and _is_ours(path):
                found.append(Checked.by(path, _check_file, path, None))
    if not found:
        raise InputError(f"{folder} holds no run, no benchmark and no other record; give a folder that does")
    return found


def _check_owner(folder: Path, open_folder: Callable[[Path], RunFolder | Results], files: list[Path]) -> list[Checked]:
    """Check every file of a run or a benchmark and, if all files are intact, that no file is missing."""
    try:
        owner = open_folder(folder)
    except (InputError, OSError) as error:
        return [Checked(str(folder), str(error))]
    mine = [path for path in files if folder in path.parents and owner.owns(path)]
    found = [Checked.by(path, _check_file, path, owner.hash) for path in mine]
    if not any(result.trouble for result in found) and (whole := Checked.by(folder, owner.check_complete)).trouble:
        found.append(whole)
    return found


def _is_ours(path: Path) -> bool:
    """Whether a file outside runs and benchmarks is a record; an unreadable JSON file counts as a record."""
    try:
        fields = read_json(path, "a record")
    except (InputError, OSError):
        return True
    return path.name == "claims.json" or (isinstance(fields, dict) and ("kind" in fields or "seal" in fields))


def _check_file(path: Path, run: str | None) -> None:
    """Check that a file's content fits its checksum and, unless `run` is None, that the file belongs to that run."""
    if path.suffix == ".safetensors":
        load_tensors(path, run or "")
    elif path.suffix == ".jsonl":
        read_rows(path, dict[str, Any], "rows", run or "")
    elif path.name == "claims.json":
        read_claims(path)
    elif isinstance(fields := read_json(path, "a record"), dict):
        check_seal(path, fields, run)
    else:
        raise InputError(f"{path} is not a record; {UNTOUCHED}")
