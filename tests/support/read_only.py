"""A disk that takes nothing, for whoever asks: tests may run as root, whom no mode of a folder keeps out."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from typing import Any

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def read_only() -> None:
    """From now on, and for good, let this process write to nothing but the console: what it tries is `EROFS`."""
    opens, plain = os.open, io.open

    def os_open(path: Any, flags: int, *given: Any, **named: Any) -> int:
        if flags & _WRITES and path != os.devnull:
            raise _refusal(path)
        return opens(path, flags, *given, **named)

    def io_open(path: Any, mode: str = "r", *given: Any, **named: Any) -> Any:
        if set(mode) & set("wax+") and not isinstance(path, int) and str(path) != os.devnull:
            raise _refusal(path)
        return plain(path, mode, *given, **named)

    os.open, io.open = os_open, io_open  # type: ignore[assignment]
    __builtins__["open"] = io_open  # type: ignore[index]
    for name in ("mkdir", "unlink", "remove", "rmdir", "replace", "rename", "truncate", "utime", "chmod", "symlink"):
        setattr(os, name, _refusing(getattr(os, name)))


def _refusing(plain: Callable[..., Any]) -> Callable[..., Any]:
    """What is not there is said to be missing, and a folder that is there to be there, as a kernel does."""

    def refused(path: Any, *given: Any, **named: Any) -> Any:
        there = os.path.lexists(path)
        if there == (plain.__name__ == "mkdir"):
            number = errno.EEXIST if there else errno.ENOENT
            raise OSError(number, os.strerror(number), str(path))
        raise _refusal(path)

    refused.__name__ = plain.__name__
    return refused


def _refusal(path: Any) -> OSError:
    return OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
