"""Being told to stop: by Ctrl-C, by a batch system's SIGTERM, by a terminal that closes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def deferred() -> Iterator[Callable[[], bool]]:
    """A context in which the first order to stop is noted and waits; gives the question whether there was one.

    The second ends the process as it would outside; a worker hears the same order again, from its parent or from who
    told both, and only waits. Orders that the process does not handle itself stay as they are, and so does everything
    in a thread other than the main one.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = {number: handler for number in _ENDING if callable(handler := signal.getsignal(number))}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(number: int, frame: Any) -> None:
        asked.set()
        if before[number] is not _end:
            restore()

    for number in before:
        signal.signal(number, note)
    try:
        yield asked.is_set
    finally:
        restore()


def raise_on_every_order() -> None:
    """Let every order to stop raise `KeyboardInterrupt`, in a process of our own; what is ignored stays ignored."""

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    _handle(stop)


def end_on_every_order() -> None:
    """Let every order to stop end a worker at once and without a word; outside `deferred` it holds nothing to save."""
    _handle(_end)


def _end(number: int, frame: Any) -> None:
    os._exit(130)


def _handle(handler: Callable[[int, Any], None]) -> None:
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)
