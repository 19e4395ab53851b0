"""The exception for all bad input, and the exception for failures of the machine."""

from __future__ import annotations

import errno
import os


class InputError(ValueError):
    """Bad input; the message is one sentence with the value, the rule that it breaks, and how to mend it.

        >>> hs.RetrievalProblem(hops=0)
        Traceback (most recent call last):
        hopscope.errors.InputError: hops must be a whole number of at least 1, got 0

    The command line prints the sentence and exits with status 2; Python callers can catch it as a `ValueError`.
    Any other exception that escapes the package is a bug, except `OSError`, which reports a failure of the machine.
    """


class MachineError(OSError):
    """A failure of the machine, not of the input, such as a full disk or a killed worker; exit status 1."""


UNTOUCHED = "it was left untouched, move it away or restore it"
"""The end of every message about a damaged file or a file of another program."""


def needs_extra(what: str, library: str, extra: str) -> InputError:
    """Return the error for a missing library that an extra of this package would install."""
    install = f"pip install -c constraints.txt '.[{extra}]'"
    return InputError(f"{what} needs {library}, which is not installed; in hopscope's folder: {install}")


def in_a_line(error: BaseException) -> str:
    """Return the first line of another library's error, at most 200 characters; its type if it has no text."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


_SHORTAGES = [
    os.strerror(getattr(errno, name))
    for name in ("ENOSPC", "EDQUOT", "EFBIG", "EMFILE", "ENFILE", "ENOMEM", "EROFS", "EIO", "EAGAIN")
    if hasattr(errno, name)
]


def lacking(text: str) -> str | None:
    """Return the shortage that an error's text reports, for example of memory or disk space; None without one.

    The text matters for libraries that repeat the system's message but do not raise an `OSError`.
    """
    if "not enough memory" in text or "out of memory" in text:
        return "this machine does not have enough memory"
    return next((shortage for shortage in _SHORTAGES if shortage in text), None)


def machine_trouble(error: BaseException) -> str | None:
    """Return a description of the machine's failure that caused an error; None if the cause is another."""
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
