"""Orders to stop: Ctrl-C, a batch system's SIGTERM, a terminal that closes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

_given: list[int] = []
"""The orders to stop that were given to a process of our own. An exception may be lost: torch, while it is imported,
imports NumPy and passes over whatever comes of that. A list, as what is noted below: a `threading.Event` has a lock, at
which an order that comes while another is noted would wait for ever."""


@contextmanager
def deferred() -> Iterator[Callable[[], bool]]:
    """A context in which the first order to stop is only noted; gives a function that says whether there was one.

    An order before it counts if its exception was lost. The second order acts as it would outside the context; only in
    a worker, which can get the same order twice (from its parent too), further orders are noted as well. Orders that
    the process does not handle itself stay as they are, and so do all in a thread other than the main one.
    """
    asked = list(_given)

    def was_asked() -> bool:
        return bool(asked)

    if threading.current_thread() is not threading.main_thread():
        yield was_asked
        return
    before = {number: handler for number in _ENDING if callable(handler := signal.getsignal(number))}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(number: int, frame: Any) -> None:
        asked.append(number)
        if before[number] is not _end:
            restore()

    for number in before:
        signal.signal(number, note)
    try:
        yield was_asked
    finally:
        restore()


def raise_on_every_order() -> None:
    """Let every order to stop raise `KeyboardInterrupt`, in a process of our own; ignored signals stay ignored."""

    def stop(number: int, frame: Any) -> None:
        _given.append(number)
        raise KeyboardInterrupt

    _handle(stop)


def end_on_every_order() -> None:
    """Let every order to stop end a worker at once and silently; outside `deferred` it has nothing to save."""
    _handle(_end)


def _end(number: int, frame: Any) -> None:
    os._exit(130)


def _handle(handler: Callable[[int, Any], None]) -> None:
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)
