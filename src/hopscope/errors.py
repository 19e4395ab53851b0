"""The exception for all bad input, wherever it comes from, and the one for trouble of the machine."""

from __future__ import annotations

import errno
import os


class InputError(ValueError):
    """Bad input: the value, the rule that it breaks, and how to mend it, in one sentence.

        >>> hs.RetrievalProblem(hops=0)
        Traceback (most recent call last):
        hopscope.errors.InputError: hops must be a whole number of at least 1, got 0

    The command line prints the sentence and exits with status 2; Python callers can catch it as a `ValueError`.
    Any other exception that escapes the package is a bug, except `OSError`, which is trouble of the machine.
    """


class MachineError(OSError):
    """Trouble of the machine, not of the input, such as a full disk or a killed worker; exit status 1."""


UNTOUCHED = "it was left untouched, move it away or restore it"
"""The end of every sentence that names a damaged or foreign file."""


def needs_extra(what: str, library: str, extra: str) -> InputError:
    """The error to raise if a library that comes with an extra of this package is not installed."""
    install = f"pip install -c constraints.txt '.[{extra}]'"
    return InputError(f"{what} needs {library}, which is not installed; in hopscope's folder: {install}")


def in_a_line(error: BaseException) -> str:
    """An error of another library in one line of at most 200 characters; its type if it has no text."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


_SHORTAGES = [
    os.strerror(getattr(errno, name))
    for name in ("ENOSPC", "EDQUOT", "EFBIG", "EMFILE", "ENFILE", "ENOMEM", "EROFS", "EIO", "EAGAIN")
    if hasattr(errno, name)
]


def lacking(text: str) -> str | None:
    """What the machine lacks, if an error's text says so: libraries that raise no `OSError` use the system's words."""
    if "not enough memory" in text or "out of memory" in text:
        return "this machine has not enough memory for that"
    return next((shortage for shortage in _SHORTAGES if shortage in text), None)


def machine_trouble(error: BaseException) -> str | None:
    """What the machine lacks, in words, if that is what caused an error; else None."""
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in seen:
        if isinstance(cause, OSError):
            return f"{cause.filename or 'this machine'}: {cause.strerror}" if cause.strerror else str(cause)
        if trouble := lacking("out of memory" if isinstance(cause, MemoryError) else str(cause)):
            return trouble
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__
    return None
