"""A folder looked through: which of its files are what was written there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hopscope.errors import InputError
from hopscope.files import read_bytes, read_json
from hopscope.records import read_rows
from hopscope.seals import UNTOUCHED, unseal, unsealed_row
from hopscope.tensor_files import read_tensors
from hopscope.training.run import RunFolder


@dataclass(frozen=True)
class Checked:
    """What was found of a file.

    Attributes:
        file: its path.
        sealed: whether it carries a checksum.
        trouble: what is wrong, in a sentence; empty where nothing is.
    """

    file: str
    sealed: bool
    trouble: str = ""


def check(folder: Path) -> list[Checked]:
    """Look through a run folder, a benchmark's folder, or one that holds such.

    Raises:
        InputError: it holds neither.
    """
    runs = sorted(path.parent for path in folder.rglob("run.json"))
    benchmarks = sorted(path.parent for path in folder.rglob("benchmark.json"))
    if not runs and not benchmarks:
        raise InputError(f"{folder} holds no run and no benchmark; give a folder that does")
    return [one for run in runs for one in _run(run)] + [one for path in benchmarks for one in _benchmark(path)]


def _run(folder: Path) -> Iterator[Checked]:
    first = folder / "run.json"
    try:
        run = RunFolder(folder)
    except InputError as error:
        yield Checked(str(first), True, str(error))
        return
    found = [_file(path, run.record.content_hash) for path in _written(folder)]
    strict = next(one.sealed for one in found if one.file == str(first))
    for one in found:
        if strict and not one.sealed and not one.trouble:
            yield Checked(one.file, False, f"{one.file} has no checksum, and run.json beside it has; {UNTOUCHED}")
        else:
            yield one
    if not any(one.trouble for one in found):
        yield from _complete(run)


def _complete(run: RunFolder) -> Iterator[Checked]:
    """What only the run as a whole can say: its rows of metrics, its result, its last state."""

    def state() -> None:
        saved = run.load_state()
        if saved is not None:
            run.require_rows(saved[0])

    def result() -> None:
        if run.finished and len(run.result.models) != len(run.seeds):
            raise InputError(f"{run.path / 'result.json'} must tell of {len(run.seeds)} models; {UNTOUCHED}")

    for name, look in (("metrics.jsonl", lambda: run.metrics), ("metrics.jsonl", state), ("result.json", result)):
        if trouble := _trouble(look):
            yield Checked(str(run.path / name), True, trouble)
            return


def _benchmark(folder: Path) -> Iterator[Checked]:
    from hopscope.benchmark.results import WHAT, Results
    from hopscope.benchmark.trial import Record

    first = folder / "benchmark.json"
    try:
        results = Results(folder)
    except InputError as error:
        yield Checked(str(first), True, str(error))
        return
    yield _file(first, results.name)
    if (folder / "summary.json").exists():
        yield _file(folder / "summary.json", results.name)
    for path in sorted((folder / "records").glob("*.jsonl")):
        there = _file(path, results.name)
        trouble = there.trouble or _trouble(partial(read_rows, path, Record, WHAT, results.name))
        yield Checked(str(path), there.sealed, trouble)


def _written(folder: Path) -> list[Path]:
    """Records, rows and tensors of a run, and what an interrupted search left; no pictures."""
    kinds = {".json", ".jsonl", ".safetensors"}
    return sorted(path for path in folder.rglob("*") if path.suffix in kinds and path.is_file())


def _file(path: Path, run: str) -> Checked:
    """One file by itself."""
    sealed = []
    trouble = _trouble(lambda: sealed.append(_is_sealed(path, run)))
    return Checked(str(path), not sealed or sealed[0], trouble)


def _is_sealed(path: Path, run: str) -> bool:
    """Whether a file has a checksum, which then holds.

    Raises:
        InputError: it does not hold, or the file is another run's or cannot be read.
    """
    if path.suffix == ".safetensors":
        return read_tensors(path, run).sealed
    if path.suffix == ".jsonl":
        rows = []
        for number, line in enumerate(read_bytes(path, "rows of a run").split(b"\n")[:-1], start=1):
            try:
                rows.append(unsealed_row(line, run))
            except ValueError as error:
                raise InputError(f"line {number} of {path} is damaged: {error}; {UNTOUCHED}") from None
        return all(row is not None for row in rows)
    fields = read_json(path, "a record")
    if not isinstance(fields, dict) or "seal" not in fields:
        return False
    unseal(path, fields, run)
    return True


def _trouble(look: Callable[[], object]) -> str:
    try:
        look()
    except (InputError, OSError) as error:
        return str(error)
    return ""
