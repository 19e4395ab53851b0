"""When tests do not check shapes: where the package is asked as users have it, without checks whose words would come
first, and what was checked often enough."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from jaxtyping import config

CHECKED = 10
"""Of every function the first so many calls are checked, in each test. Some are called a hundred thousand times, and a
check takes longer than what they do."""


class Sparing(type(config)):
    """Asked at each call of a function whether checks are off, it counts the calls."""

    calls: ClassVar[Counter[object]] = Counter()
    off = False

    @property
    def jaxtyping_disable(self) -> bool:
        called = sys._getframe(1).f_locals["fn"]
        self.calls[called] += 1
        return self.off or self.calls[called] > CHECKED

    @jaxtyping_disable.setter
    def jaxtyping_disable(self, off: bool) -> None:
        self.off = off


@contextmanager
def unchecked() -> Iterator[None]:
    """A context without checks."""
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", False)
