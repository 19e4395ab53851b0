"""Checks of a folder: which of its files still hold what was written there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from hopscope.circuits.store import check_place, circuits_in
from hopscope.errors import UNTOUCHED, InputError
from hopscope.files import read_bytes, read_json
from hopscope.model.fast import FastTransformer
from hopscope.records import read_rows
from hopscope.seals import unseal, unsealed_row, unsealed_table
from hopscope.tensor_files import read_tensors
from hopscope.training.adamw import MOMENTS
from hopscope.training.run import RunFolder, check_name
from hopscope.training.together import is_being_laid_apart

if TYPE_CHECKING:
    from hopscope.benchmark.results import Results

_NAMES = {"summary.json", "claims.json"}
"""Names of records that did not state their kind before they had checksums."""

_OF_RUNS = ("metrics.jsonl", "state.safetensors")


@dataclass(frozen=True)
class Checked:
    """The result of checking a file.

    Attributes:
        file: path of the file.
        sealed: whether it carries a checksum.
        trouble: what is wrong, in a sentence; empty if nothing is.
    """

    file: str
    sealed: bool
    trouble: str = ""


def check(folder: Path) -> list[Checked]:
    """Check a run folder, a benchmark's folder, or a folder that holds such folders, and our other records in it.

    A run may be training there meanwhile: incomplete files are left out, and files are read in an order in which each
    vouches for the next.

    Raises:
        InputError: it is not a folder, or holds none of these.
    """
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {what}; give the folder of a run, or what holds runs or a benchmark")
    runs = sorted(path.parent for path in _files(folder, "run.json"))
    benchmarks = sorted(path.parent for path in _files(folder, "benchmark.json"))
    theirs = {*runs, *benchmarks}
    others = [path for path in _files(folder, "*.json") if not theirs & {*path.parents} and _ours(path)]
    orphans = {path.parent for name in _OF_RUNS for path in _files(folder, name)} - theirs
    if not (runs or benchmarks or others or orphans):
        raise InputError(f"{folder} holds no run, no benchmark and no other record; give a folder that does")
    lost = [(path / "run.json", f"{path / 'run.json'} is missing, and files of a run are there") for path in orphans]
    return [
        *(one for run in runs for one in _run(run)),
        *(one for path in benchmarks for one in _benchmark(path)),
        *(_looked_at(path, partial(_is_sealed_record, path)) for path in others),
        *(Checked(str(path), True, trouble) for path, trouble in sorted(lost)),
    ]


def _files(folder: Path, pattern: str) -> list[Path]:
    """All files of such a name, except those of runs that are being laid apart, which are made anew after a kill."""
    return [path for path in sorted(folder.rglob(pattern)) if not is_being_laid_apart(path)]


def _run(folder: Path) -> Iterator[Checked]:
    first = folder / "run.json"
    try:
        run = RunFolder(folder)
    except InputError as error:
        yield Checked(str(first), True, str(error))
        return
    weights = _weights(run)
    found = [_file(path, run.record.content_hash, weights) for path in _written(folder)]
    strict = next(one.sealed for one in found if one.file == str(first))
    for one in found:
        if strict and not one.sealed and not one.trouble:
            yield Checked(one.file, False, f"{one.file} has no checksum, and run.json beside it has; {UNTOUCHED}")
        else:
            yield one
    if not any(one.trouble for one in found):
        yield from _complete(run)


def _complete(run: RunFolder) -> Iterator[Checked]:
    """Check what needs the run as a whole: its rows of metrics, its result, its last state, its weights and circuits.

    A run without a state may be a small copy, which has only the checkpoints that are there. A run that is training
    writes rows and checkpoints to the disk before the state that tells of them, so the state is read first.
    """
    come_to: list[int] = []
    lost: list[Path] = []

    def state() -> None:
        saved = run.load_state()
        if saved is not None:
            come_to.append(saved[0])

    def come_past() -> None:
        for step in come_to:
            run.require_rows(step)
            lost.extend(run.lost_checkpoints(step))

    def there() -> None:
        try:
            run.require_no_lost_state()
        except InputError:
            if not run.finished and not (run.path / "state.safetensors").exists():
                raise

    def result() -> None:
        if run.finished and len(run.result.models) != len(run.seeds):
            raise InputError(f"{run.path / 'result.json'} must tell of {len(run.seeds)} models; {UNTOUCHED}")

    looks: list[tuple[str, Callable[[], object]]] = [
        ("state.safetensors", state),
        ("metrics.jsonl", lambda: run.metrics),
        ("metrics.jsonl", come_past),
        ("state.safetensors", there),
        ("result.json", result),
    ]
    for name, look in looks:
        if trouble := _trouble(look):
            yield Checked(str(run.path / name), True, trouble)
            return
    for path in lost:
        yield Checked(str(path), True, f"{path} is missing, and the run has come past it; restore it")
    for path, step in circuits_in(run.path).items():
        if trouble := _trouble(partial(check_place, path, step, run)):
            yield Checked(str(path), True, trouble)


def _benchmark(folder: Path) -> Iterator[Checked]:
    from hopscope.benchmark.results import WHAT, Results
    from hopscope.benchmark.trial import Record

    first = folder / "benchmark.json"
    try:
        results = Results(folder)
    except InputError as error:
        yield Checked(str(first), True, str(error))
        return
    found = [_file(path, results.name) for path in (first, folder / "summary.json") if path.exists()]
    for path in sorted((folder / "records").glob("*.jsonl")):
        there = _file(path, results.name)
        trouble = there.trouble or _trouble(partial(read_rows, path, Record, WHAT, results.name))
        found.append(Checked(str(path), there.sealed, trouble))
    yield from found
    if not any(one.trouble for one in found) and (trouble := _trouble(lambda: _see_records(results))):
        yield Checked(str(folder / "records"), True, trouble)


def _see_records(results: Results) -> None:
    """Check that all records that a benchmark's summary tells of are there, if it has one; there may be more.

    Raises:
        InputError: some records are missing.
    """
    from hopscope.benchmark.points import Summary, group
    from hopscope.benchmark.settings import Cell

    summary = results.folder / "summary.json"
    if not summary.exists():
        return
    told = Summary.read(summary)
    there = {model: group(results.records(model).values()) for model in {point.model for point in told.points}}
    for point in told.points:
        found = len(there[point.model].get(Cell(point.formulation, point.hops), []))
        if found < point.asked:
            raise InputError(
                f"{results.path(point.model)} has {found} of the {point.asked} records of {point.formulation} at "
                f"{point.hops} hops that summary.json tells of; {UNTOUCHED}"
            )


def _ours(path: Path) -> bool:
    """Whether a file beside runs and benchmarks is a record; a file that is not readable as JSON counts as one."""
    try:
        fields = read_json(path, "a record")
    except (InputError, OSError):
        return True
    if path.name in _NAMES:
        return True
    return isinstance(fields, dict) and ("kind" in fields or "seal" in fields)


def _written(folder: Path) -> list[Path]:
    """The records, rows and tensors of a run, and what an interrupted search left; no pictures."""
    kinds = {".json", ".jsonl", ".safetensors"}
    return [path for path in _files(folder, "*") if path.suffix in kinds]


def _weights(run: RunFolder) -> dict[str, torch.Size]:
    """The shapes of a run's weights, by name."""
    with torch.device("meta"):
        transformer = FastTransformer(run.recipe.architecture(run.problem), len(run.seeds))
    return {name: weight.shape for name, weight in transformer.state_dict().items()}


def _check_tensors(path: Path, tensors: dict[str, Tensor], weights: dict[str, torch.Size]) -> None:
    """Check that a checkpoint holds the weights alone, and a state the weights and their moments, among others.

    Raises:
        InputError: the file does not, for example where one was put in the other's place.
    """
    there = {name: tensor.shape for name, tensor in tensors.items()}
    if path.parent.name == "checkpoints":
        what, fits = "the weights of this run alone", there == weights
    elif path.name == "state.safetensors":
        moments = {f"{moment}.{name}": shape for moment in MOMENTS for name, shape in weights.items()}
        what, fits = "a state of this run to go on from", (weights | moments).items() <= there.items()
    else:
        return
    if not fits:
        raise InputError(f"{path} does not hold {what}; {UNTOUCHED}")


def _file(path: Path, run: str, weights: dict[str, torch.Size] | None = None) -> Checked:
    """Check one file by itself, one of a run with weights of these shapes."""
    return _looked_at(path, lambda: _is_sealed(path, run, weights))


def _looked_at(path: Path, is_sealed: Callable[[], bool]) -> Checked:
    sealed = []
    trouble = _trouble(lambda: sealed.append(is_sealed()))
    return Checked(str(path), not sealed or sealed[0], trouble)


def _is_sealed(path: Path, run: str, weights: dict[str, torch.Size] | None) -> bool:
    """Whether a file of a run has a checksum, which is then checked.

    Raises:
        InputError: the checksum does not fit, or the file belongs to another run, is named for another step, holds
            other tensors, or cannot be read.
    """
    if path.suffix == ".safetensors":
        read = read_tensors(path, run)
        if path.parent.name == "checkpoints":
            check_name(path, read.step)
        if weights is not None:
            _check_tensors(path, read.tensors, weights)
        return read.sealed
    if path.suffix == ".jsonl":
        rows = []
        for number, line in enumerate(read_bytes(path, "rows of a run").split(b"\n")[:-1], start=1):
            try:
                rows.append(unsealed_row(line, run))
            except ValueError as error:
                raise InputError(f"line {number} of {path} is damaged: {error}; {UNTOUCHED}") from None
        return all(row is not None for row in rows)
    return _is_sealed_record(path, run)


def _is_sealed_record(path: Path, run: str | None = None) -> bool:
    """Whether a record or table has a checksum, which is then checked; of any run if `run` is None."""
    fields = read_json(path, "a record")
    if isinstance(fields, list) and any(isinstance(row, dict) and "checksum" in row for row in fields):
        unsealed_table(path, [row if isinstance(row, dict) else {} for row in fields])
        return True
    return isinstance(fields, dict) and unseal(path, fields, run)


def _trouble(look: Callable[[], object]) -> str:
    try:
        look()
    except (InputError, OSError) as error:
        return str(error)
    return ""
