"""One use of what a path brings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hopscope.theory.path import AttentionPath

Into = Literal["query", "key", "value", "answer"]
"""What a path can feed: the query, key or value of a later path, or the answer itself."""


@dataclass(frozen=True)
class Feed:
    """One use of what a path brings.

    Attributes:
        into: what it feeds: the query, key or value of a later path, or the answer.
        reader: the later path that reads it; None for the answer.
        change: how much the loss rises when this use alone is cut.
        attention: how much the later path's mean attention falls when this use alone is cut; 0 for a value or the
            answer.
    """

    into: Into
    reader: AttentionPath | None = None
    change: float = 0.0
    attention: float = 0.0

    def describe(self, roles: Sequence[str]) -> str:
        """The use in words: `K of layer 5 (x0? -> >x1)`, or `the answer`."""
        if self.reader is None:
            return "the answer"
        layer, _, query, key = self.reader.names(roles)
        return f"{self.into[0].upper()} of layer {layer} ({query} -> {key})"
