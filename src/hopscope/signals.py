"""Signals to stop: Ctrl-C, a batch system's SIGTERM, a terminal that closes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_STOPPING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

_raised: list[int] = []
"""The signals for which `raise_on_stop_signals` raised; the exception may be lost, since torch, while it is imported,
ignores NumPy's errors. A list: a `threading.Event` has a lock at which a second signal would wait for ever."""


@contextmanager
def deferred() -> Iterator[Callable[[], bool]]:
    """A context in which the first signal to stop is only noted; gives a function that says whether there was one.

    A signal before it counts if its exception was lost. The second signal acts as it would outside the context; only in
    a worker, which can get the same signal twice (from its parent too), further ones are noted as well. Signals that
    the process does not handle itself stay as they are, and so do all in a thread other than the main one.
    """
    noted = list(_raised)

    def was_asked() -> bool:
        return bool(noted)

    if threading.current_thread() is not threading.main_thread():
        yield was_asked
        return
    before = {number: handler for number in _STOPPING if callable(handler := signal.getsignal(number))}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(number: int, frame: Any) -> None:
        noted.append(number)
        if before[number] is not _exit:
            restore()

    for number in before:
        signal.signal(number, note)
    try:
        yield was_asked
    finally:
        restore()


def raise_on_stop_signals() -> None:
    """Let every signal to stop raise `KeyboardInterrupt`, in a process of our own; ignored signals stay ignored."""
    _handle(_raise)


def exit_on_stop_signals() -> None:
    """Let every signal to stop end a worker at once and silently; outside `deferred` it has nothing to save."""
    _handle(_exit)


def _raise(number: int, frame: Any) -> None:
    _raised.append(number)
    raise KeyboardInterrupt


def _exit(number: int, frame: Any) -> None:
    os._exit(130)


def _handle(handler: Callable[[int, Any], None]) -> None:
    for number in _STOPPING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)
