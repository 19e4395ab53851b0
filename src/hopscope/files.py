"""Files that outlive the program: written whole or not at all, and read with a clear word when damaged."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from hopscope.errors import InputError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; rename it over `path` when the block ends well, remove it when not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Remove what `replacing` left unfinished in processes that were killed."""
    for path in folder.rglob(".*.tmp"):
        pid = path.name.split(".")[-2]
        if pid.isdigit() and not _alive(int(pid)):
            path.unlink(missing_ok=True)


def _alive(pid: int) -> bool:
    if sys.platform == "win32":  # where the question below would end the process
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8, atomically."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Write `data` atomically, on the disk before the new name is."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically. NaN and infinities are refused: they are not JSON."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_json(path: Path, what: str) -> Any:
    """Read JSON; `what` says in words what the file should be.

    Raises:
        InputError: the file is missing, unreadable or not JSON. It is left untouched.
    """
    try:
        return msgspec.json.decode(_read(path, what))
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path} is not readable as {what} ({error}); it was left untouched, move it away or restore it"
        ) from None


def json_lines(rows: Iterable[Any]) -> str:
    """One JSON object a line."""
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)


def read_lines(path: Path, what: str) -> list[bytes]:
    """The finished lines of a file: a last one that a killed writer left without its end is not counted.

    Raises:
        InputError: the file is missing.
    """
    return _read(path, what).split(b"\n")[:-1]


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; expected {what} there") from None


@contextmanager
def holding(path: Path, busy: str, patience: float = 0.0) -> Iterator[None]:
    """Hold `path`, an empty file, as the only process that does; the hold ends with the process, however it ends.

    Args:
        path: of the file; it stays.
        busy: what to say where another holds it.
        patience: seconds to wait for the other to go.

    Raises:
        InputError: another process holds it still.
    """
    from filelock import FileLock, Timeout  # on first use: it is slow to import

    try:
        with FileLock(path, timeout=patience):
            yield
    except Timeout:
        raise InputError(busy) from None


def number_or_null(value: float) -> float | None:
    """A number fit for JSON: null where a diverged model gives NaN or infinity."""
    return value if math.isfinite(value) else None
