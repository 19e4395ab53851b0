"""Threads of searches beside other work.

Torch shares every operation out among its threads, and all of them wait for the last: where other work holds one up,
they stand still together, and wait by counting. Two searches side by side on two cores, each on two threads, took four
times as long as on one thread each. So who searches looks now and then how much of the cores it gets, and goes on with
as many threads as that is. That changes nothing but, with some libraries, rounding: products are cut between threads,
and oneDNN's come to the same bits on any number of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")

_WORTH = 0.75
"""Threads that get a smaller share of as many cores wait for one another more than they help."""

_SECONDS = 1.0
"""How long threads are watched before it is said what they do."""

_PATIENCE = 30.0
"""Seconds on fewer threads until all are tried again: other work comes to an end."""


def yields_cores(work: Callable[P, T]) -> Callable[P, T]:
    """Work during which evaluators take fewer threads where other work holds them up. Afterwards all is as before."""

    @wraps(work)
    def watched(*given: P.args, **named: P.kwargs) -> T:
        threads = torch.get_num_threads()
        if threads == 1 or _HERE.watched is not None:  # or work within such work
            return work(*given, **named)
        _HERE.watched = _Threads(threads)
        try:
            return work(*given, **named)
        finally:
            _HERE.watched = None
            torch.set_num_threads(threads)

    return watched


def look() -> None:
    """Take fewer threads, or all again, where it is time to: asked before every pass through a model."""
    if _HERE.watched is not None:
        _HERE.watched.look()


class _Threads:
    """The threads of this process: all of them, or for a while fewer."""

    def __init__(self, count: int) -> None:
        self._count = self._taken = count
        self._fewer_since = 0.0
        self._begin()

    def look(self) -> None:
        """See whether all threads taken are worth having."""
        now = time.monotonic()
        seconds = now - self._since
        if self._taken < self._count and now - self._fewer_since >= _PATIENCE:
            self._take(self._count)
        elif self._taken > 1 and seconds >= _SECONDS:
            cores = (time.process_time() - self._worked) / seconds
            if cores >= _WORTH * self._taken:
                self._begin()
                return
            if self._taken == self._count:
                self._fewer_since = now
            self._take(max(1, round(cores)))

    def _take(self, threads: int) -> None:
        torch.set_num_threads(threads)
        self._taken = threads
        self._begin()

    def _begin(self) -> None:
        self._since, self._worked = time.monotonic(), time.process_time()


class _Here(threading.local):
    """What is watched in this thread of Python, to which torch's threads belong."""

    watched: _Threads | None = None


_HERE = _Here()
