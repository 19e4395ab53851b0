"""Files that outlive the program: written whole or not at all, and refused by name when they cannot be read."""

from __future__ import annotations

import glob
import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from hopscope.errors import UNTOUCHED, InputError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A context that gives a temporary path beside `path`; at its end that file is synced and renamed.

    If the block fails, the temporary file is removed; a killed process's goes with the next write of the file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        if not _is_running(leftover.name.split(".")[-2]):
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
    """Wait until a file's content, or the names in a folder, are on the disk."""
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
    """Write `value` as indented JSON, atomically. NaN and infinities are refused: they are not JSON."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_json(path: Path, what: str) -> Any:
    """Read JSON; `what` says in words what the file should hold. Other content raises an `InputError`."""
    data = read_bytes(path, what)
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not readable as {what} ({error}); {UNTOUCHED}") from None


def read_bytes(path: Path, what: str) -> bytes:
    """The content of an ordinary file: no folder, and no device or pipe, which never ends."""
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
    """A context in which this process alone holds a lock file, which stays there; if it dies, the lock is free.

    Where another process holds it after `patience` seconds, an `InputError` says that it is `busy`.
    """
    from filelock import FileLock, Timeout  # on first use: it is slow to import

    try:
        with FileLock(path, timeout=patience):
            yield
    except Timeout:
        raise InputError(busy) from None
