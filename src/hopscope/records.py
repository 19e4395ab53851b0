"""Files on disk: atomic writes, and records, rows and tensors with a checksum.

A record is a frozen dataclass, and its file is a JSON object. The first fields are `kind`, the kind of record,
`schema`, which is 1, and `seal`, with the content hash of the record's run and a checksum of run and content. The
fields of the dataclass follow. A row is a line of JSON whose last field, `seal`, is its checksum. Tensors are in
safetensors files, which state step, run and checksum. Reading is strict: files that were changed, files of another run,
and missing, unknown or wrong fields are refused, and the file is left unchanged.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from hopscope.errors import UNTOUCHED, InputError, MachineError, lacking

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")

SCHEMA = 1


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A context that yields a temporary path beside `path`; at its end, that file is synced and renamed to `path`.

    If the block fails, the temporary file is removed; the next write of `path` removes the file of a killed process.
    """
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file")
    path.parent.mkdir(parents=True, exist_ok=True)
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        process = leftover.name.split(".")[-2]
        if process.isdigit() and not _is_running(process):
            leftover.unlink(missing_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        sync(temporary)
        os.replace(temporary, path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _is_running(process: str) -> bool:
    if sys.platform != "win32":  # where os.kill would end the process
        with suppress(PermissionError):
            try:
                os.kill(int(process), 0)
            except (ProcessLookupError, OverflowError):
                return False
    return True


def sync(path: Path) -> None:
    """Wait until the content of a file, or the list of files in a folder, is on the disk."""
    if path.is_dir() and sys.platform == "win32":  # which cannot open folders
        return
    opened = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def write_bytes(path: Path, data: bytes) -> None:
    """Write `data` atomically."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8, atomically."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically. NaN and infinities raise a `ValueError`, since JSON has neither."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_json(path: Path, what: str) -> Any:
    """Return the value in a JSON file; `what` describes the expected content in the `InputError` for any other file."""
    data = read_bytes(path, what)
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not readable as {what} ({error}); {UNTOUCHED}") from None


def read_bytes(path: Path, what: str) -> bytes:
    """Return the content of a regular file; folders, and devices and pipes, which may never end, are refused."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError(f"{path} is not a file; expected {what} there")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path} does not exist; expected {what} there") from None
    except PermissionError:
        raise InputError(f"{path} may not be read; expected {what} there") from None


@contextmanager
def lock(path: Path, busy: str, patience: float = 0.0) -> Iterator[None]:
    """A context in which only this process holds the lock at `path`; if the process dies, the lock is free.

    If another process still holds the lock after `patience` seconds, an `InputError` with the text `busy` is raised.
    """
    from filelock import FileLock, Timeout  # on first use: it is slow to import

    try:
        with FileLock(path, timeout=patience):
            yield
    except Timeout:
        raise InputError(busy) from None


@dataclass(frozen=True)
class RecordFormat(Generic[T]):
    """A kind of record: `holds` is its dataclass, `kind` its name in files, and `what` its description in messages."""

    holds: type[T]
    kind: str
    what: str

    @property
    def named(self) -> dict[str, Any]:
        """The fields that state the kind of record; they come first in every file."""
        return {"kind": self.kind, "schema": SCHEMA}

    def read(self, path: Path, run: str | None = None) -> T:
        """Read a record of the run with content hash `run`; None allows any run.

        Raises:
            InputError: the file is missing, damaged, of another kind or run, or has a wrong field.
        """
        fields = read_json(path, self.what)
        if not isinstance(fields, dict) or fields.get("kind") != self.kind:
            raise InputError(f"{path} is not {self.what}; it was left untouched")
        check_seal(path, fields, run)
        content = {name: value for name, value in fields.items() if name not in ("kind", "schema", "seal")}
        try:
            return convert(content, self.holds, self.what, complete=True)
        except InputError as error:
            raise InputError(f"{path} is damaged: {error}; {UNTOUCHED}") from None

    def write(self, path: Path, value: T, run: str = "", *, overwrite: bool = False) -> None:
        """Write a record of a run, atomically; a file of another kind is replaced only with `overwrite`.

        NaN and infinities raise a `ValueError`, since JSON cannot hold them.
        """
        if not overwrite:
            self.check_replaces(path)
        content = plain(value)
        write_json(path, {**self.named, "seal": seal({**self.named, **content}, run), **content})

    def check_replaces(self, path: Path, run: str | None = None) -> None:
        """Check that `path` is free or has a record of this kind that is of `run` (None for any run) or of no run."""
        if path.exists():
            fields = read_json(path, self.what)
            there = fields.get("seal") if isinstance(fields, dict) and fields.get("kind") == self.kind else None
            if not isinstance(there, dict) or (run is not None and there.get("run") not in ("", run)):
                raise InputError(f"{path} is not {self.what}, or of another run; {UNTOUCHED}, or choose another place")


def seal(fields: dict[str, Any], run: str) -> dict[str, str]:
    """Return the seal of a record with these fields: its run, and a checksum of the run and the fields."""
    return {"run": run, "checksum": checksum(run, _canonical(fields))}


def check_seal(path: Path, fields: dict[str, Any], run: str | None = None) -> None:
    """Check that the fields of a record are unchanged and, unless `run` is None, that they belong to that run."""
    if fields.get("schema") != SCHEMA:
        raise InputError(f"{path} has schema {fields.get('schema')!r}, not {SCHEMA}; {UNTOUCHED}")
    there = fields.get("seal")
    of = str(there.get("run")) if isinstance(there, dict) else ""
    if there != seal({name: value for name, value in fields.items() if name != "seal"}, of):
        raise InputError(f"{path} is damaged: its content does not fit its checksum; {UNTOUCHED}")
    if run is not None and of != run:
        raise InputError(f"{path} belongs to another run; it was left untouched, move it away")


def row_lines(rows: Iterable[Any], run: str) -> str:
    """Return dataclasses as rows of a run, one line of JSON each."""
    texts = (json.dumps(plain(row), allow_nan=False)[:-1] for row in rows)
    return "".join(f'{text}, "seal": "{checksum(run, text.encode())[:16]}"}}\n' for text in texts)


def read_rows(path: Path, type: type[T], what: str, run: str) -> list[T]:
    """Read the rows of a run into typed values; an unfinished last line, left by a killed process, is skipped."""
    decode, rows = msgspec.json.Decoder(type).decode, []
    for number, line in enumerate(read_bytes(path, what).split(b"\n")[:-1], start=1):
        text, _, row_seal = line.rpartition(b', "seal": "')
        if row_seal != f'{checksum(run, text)[:16]}"}}'.encode():
            raise InputError(f"line {number} of {path} is damaged, or of another run; {UNTOUCHED}")
        try:
            rows.append(decode(text + b"}"))
        except ValueError as error:
            raise InputError(f"line {number} of {path} is not {what} ({error}); {UNTOUCHED}") from None
    return rows


def mend_rows(path: Path) -> None:
    """Remove the unfinished line that a killed process left at the end of a file of rows, or make an empty file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


def sealed_table(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a table's rows, each with the checksum of all rows as its last field, so that the file is still a list."""
    whole = checksum("", _canonical(rows))
    return [{**row, "checksum": whole} for row in rows]


def convert(value: Any, type: type[T], what: str, *, complete: bool = False) -> T:
    """Convert plain objects, lists, numbers and strings to a typed value; if `complete`, no field may be left out.

    A missing, unknown or wrong field raises an `InputError` whose message is `what` and then the field.
    """
    try:
        made = msgspec.convert(value, type)
    except (msgspec.ValidationError, RecursionError) as error:
        rule, _, field = str(error).replace("`", "").partition(" - at $.")
        raise InputError(f"{what}: {field + ': ' if field else ''}{rule}") from None
    stated, known = set(_fields(value)), set(_fields(plain(made)))
    if unknown := stated - known:
        raise InputError(f"{what} has the unknown field {min(unknown)}")
    if complete and (missing := known - stated):
        raise InputError(f"{what} lacks the field {min(missing)}")
    return made


def plain(value: Any) -> Any:
    """Convert a typed value to objects, lists, numbers and strings; NaN and infinities, invalid in JSON, stay."""
    # msgspec alone would leave out fields that were not in the file a dataclass was read from.
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    elif isinstance(value, list | tuple):
        value = [plain(item) for item in value]
    return msgspec.to_builtins(value, str_keys=True)


def content_hash(value: Any) -> str:
    """Return a short hash of a JSON value: the first 16 hexadecimal digits of the SHA-256 of its canonical text."""
    return hashlib.sha256(_canonical(value)).hexdigest()[:16]


def checksum(run: str, *parts: bytes | memoryview) -> str:
    """Return 32 hexadecimal digits of the SHA-256 of a run's content hash and `parts`, each preceded by its length."""
    total = hashlib.sha256()
    for part in (run.encode(), *parts):
        total.update(len(part).to_bytes(8, "little"))
        total.update(part)
    return total.hexdigest()[:32]


def _canonical(value: Any) -> bytes:
    """Return the text of a JSON value without spaces and line breaks, with the fields in sorted order."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _fields(value: Any, where: str = "") -> Iterator[str]:
    """Yield the path of every field in a plain value, such as `legs.0.length`."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    for name, inner in inside:
        if isinstance(value, dict):
            yield f"{where}{name}"
        yield from _fields(inner, f"{where}{name}.")


_MARK = re.compile(r"(\d{1,18}) of run (\w+) with checksum (\w+)", re.ASCII)
"""The only metadata entry of a tensor file; if there were several, their order would differ from file to file."""


def save_tensors(path: Path, tensors: dict[str, Tensor], step: int, run: str) -> None:
    """Write tensors, their step and the content hash of their run atomically, as safetensors."""
    from safetensors.torch import save

    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    mark = f"{step} of run {run} with checksum {_checksum(path, on_cpu, step, run)}"
    write_bytes(path, save(on_cpu, metadata={"step": mark}))


def load_tensors(path: Path, run: str) -> tuple[int, dict[str, Tensor]]:
    """Return the step and the tensors of a file by `save_tensors`; damaged files and other runs' files are refused."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    data = read_bytes(path, "tensors of a run")  # read once: a run that is training may replace its state at any moment
    try:
        tensors = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        mark = _MARK.fullmatch(header["__metadata__"]["step"])
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        if trouble := lacking(str(error)):
            raise MachineError(f"{path}: {trouble}") from None
        raise InputError(f"{path} is damaged or not a file of tensors ({error}); {UNTOUCHED}") from None
    if mark is None or mark[3] != _checksum(path, tensors, int(mark[1]), mark[2]):
        raise InputError(f"{path} is damaged or renamed: its content does not fit its checksum; {UNTOUCHED}")
    if mark[2] != run:
        raise InputError(f"{path} belongs to another run; it was left untouched, move it away")
    return int(mark[1]), tensors


def _checksum(path: Path, tensors: dict[str, Tensor], step: int, run: str) -> str:
    """Return the checksum of tensors, their step and their file name, so that a renamed file is detected."""
    import torch

    parts: list[bytes | memoryview] = [f"{path.name} {step}".encode()]
    for name, tensor in sorted(tensors.items()):
        parts.append(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        parts.append(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return checksum(run, *parts)
