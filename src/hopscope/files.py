"""Files that outlive the program: written whole or not at all, and refused with a clear message when damaged."""

from __future__ import annotations

import glob
import json
import math
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from hopscope.errors import UNTOUCHED, InputError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A context that gives a temporary path beside `path`; at its end the file is brought to the disk and renamed.

    If the block fails, the temporary file is removed; one that a killed process left is removed by the next process
    that writes the same file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_left_over(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        settle(temporary)
        os.replace(temporary, path)
        if sys.platform != "win32":  # Windows cannot open folders
            settle(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def settle(path: Path) -> None:
    """Wait until a file's content, or the names in a folder, are on the disk."""
    opened = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _remove_left_over(path: Path) -> None:
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        pid = left.name.split(".")[-2]
        if pid.isdigit() and not _alive(int(pid)):
            left.unlink(missing_ok=True)


def _alive(pid: int) -> bool:
    if sys.platform == "win32":  # where os.kill would end the process
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8, atomically."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Write `data` atomically."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically. NaN and infinities are refused: they are not JSON."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_json(path: Path, what: str) -> Any:
    """Read JSON; `what` says in words what the file should hold.

    Raises:
        InputError: the file is missing, unreadable or not JSON. It is left untouched.
    """
    data = read_bytes(path, what)
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not readable as {what} ({error}); {UNTOUCHED}") from None


def json_lines(rows: Iterable[Any]) -> str:
    """The rows as JSON, one per line."""
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)


def read_bytes(path: Path, what: str) -> bytes:
    """The content of a file.

    Raises:
        InputError: see `check_file`.
    """
    check_file(path, what)
    return path.read_bytes()


def check_file(path: Path, what: str) -> None:
    """Check that a path is an ordinary file that may be read, and not something that never ends.

    Raises:
        InputError: the file is missing, a folder, a device or a pipe, may not be read, or is larger than this machine's
            memory.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{path} is not a file; expected {what} there")
        if status.st_size > memory():
            raise InputError(f"{path} has {status.st_size / 1e9:.0f} GB, more than this machine's memory")
        path.open("rb").close()
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path} does not exist; expected {what} there") from None
    except PermissionError:
        raise InputError(f"{path} may not be read; expected {what} there") from None


def check_folder(folder: Path) -> None:
    """Check that there can be a folder at a path.

    Raises:
        InputError: the path, or one of its parents, is a file.
    """
    there = next(one for one in (folder, *folder.parents) if one.exists())
    if not there.is_dir():
        raise InputError(f"{there} is a file; give a folder")


def check_fits(size: int) -> None:
    """Check that `size` bytes fit into this machine's memory.

    Raises:
        InputError: they do not fit.
    """
    if size > memory():
        raise InputError(
            f"that would take {in_words(size)} of memory at the least and there are {in_words(memory())}; ask for less"
        )


def in_words(size: int) -> str:
    """A number of bytes in words, such as `1.5 GB`."""
    power = min((len(str(size)) - 1) // 3 if size < 10**18 else 6, 6)
    if size >= 10**21:
        return "over 1000 EB"
    return f"{size / 1000**power:.3g} {['B', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB'][power]}"


def memory() -> int:
    """Bytes of memory in this machine."""
    if sys.platform == "win32":
        return 1 << 50
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@contextmanager
def holding(path: Path, busy: str, patience: float = 0.0) -> Iterator[None]:
    """A context in which this process alone holds `path`, an empty lock file; if the process dies, the file is free.

    Args:
        path: the lock file, which stays there afterwards.
        busy: the message if another process holds it.
        patience: seconds to wait for the other process.

    Raises:
        InputError: another process still holds it.
    """
    from filelock import FileLock, Timeout  # on first use: it is slow to import

    try:
        with FileLock(path, timeout=patience):
            yield
    except Timeout:
        raise InputError(busy) from None


def free_memory() -> int:
    """Bytes of memory that are still available; if the system does not say, all bytes of memory."""
    told = Path("/proc/meminfo")
    lines = told.read_text().splitlines() if told.exists() else []
    free = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return memory() if free is None else 1024 * int(free)


def number_or_null(value: float) -> float | None:
    """A number fit for JSON: None where a diverged model gives NaN or infinity."""
    return value if math.isfinite(value) else None
