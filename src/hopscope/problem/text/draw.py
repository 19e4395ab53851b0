"""Random draws by address: every question has its own stream, whatever was drawn before it.

Only `random.Random.random` is used, the one method whose numbers Python promises to keep from version to version, so
that a question drawn today is the question drawn in ten years.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def digest(*address: str | int) -> str:
    """The SHA-256 of an address, in hexadecimal. Parts are joined by a character that none of them may contain."""
    return hashlib.sha256("\x1f".join(str(part) for part in address).encode()).hexdigest()


class Draw:
    """The stream of random numbers at one address."""

    def __init__(self, *address: str | int) -> None:
        self._next = random.Random(int(digest(*address)[:32], 16)).random

    def uniform(self) -> float:
        """A uniform number in [0, 1)."""
        return self._next()

    def below(self, count: int) -> int:
        """A uniform whole number in [0, count)."""
        return int(self._next() * count)

    def permutation(self, count: int) -> tuple[int, ...]:
        """A uniform permutation of 0 ... count - 1 (Fisher and Yates)."""
        values = list(range(count))
        for last in range(count - 1, 0, -1):
            other = int(self._next() * (last + 1))
            values[last], values[other] = values[other], values[last]
        return tuple(values)

    def some(self, values: Sequence[T], count: int) -> list[T]:
        """`count` of the `values` in random order, none twice."""
        return [values[i] for i in self.permutation(len(values))[:count]]
