"""Attention paths: who attends to whom, in which layer and head."""

from __future__ import annotations

from typing import NamedTuple


class Path(NamedTuple):
    """One attention path of a chain.

    Attributes:
        layer: from 1.
        query: role of the position that attends, as in `x0?`.
        key: role of the position attended to, as in `>x1`.
        head: from 1. Information flow does not depend on it.
    """

    layer: int
    query: str
    key: str
    head: int = 1

    def __str__(self) -> str:
        return f"layer {self.layer}: {self.query} -> {self.key}"
