"""The seam: what passes through a transformer may be looked at and changed on the way."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

Stream = Float[Tensor, "model batch pos d_model"]
Queried = Float[Tensor, "model batch query d_model"]
"""The stream at the positions that are computed: all, or the last few."""

Pattern = Float[Tensor, "model batch head query key"]


class Edit:
    """What is changed on the way through: nothing here; subclasses override what they change. Layers count from 0."""

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """The attention pattern that multiplies the values. Queries are the last positions of every sequence."""
        return pattern

    def written(self, layer: int, written: Queried) -> Queried:
        """What a layer's attention adds to the stream."""
        return written


class Recorder(Edit):
    """Keeps every layer's pattern, after the edit it wraps.

    Attributes:
        patterns: by layer, in the order in which they came.
    """

    def __init__(self, inner: Edit | None = None) -> None:
        self._inner = inner or Edit()
        self.patterns: list[Pattern] = []

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """The inner edit's pattern, kept."""
        self.patterns.append(self._inner.pattern(layer, pattern))
        return self.patterns[-1]

    def written(self, layer: int, written: Queried) -> Queried:
        """The inner edit's."""
        return self._inner.written(layer, written)
