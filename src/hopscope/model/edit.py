"""The seam: what passes through a transformer can be looked at and changed on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from hopscope.kernels.fused_attention import FixedRows
from hopscope.model.architecture import Architecture

Stream = Float[Tensor, "model batch pos d_model"]
Queried = Float[Tensor, "model batch query d_model"]
"""The stream at the positions that are computed: all, or the last few."""

Pattern = Float[Tensor, "model batch head query key"]

Keys = Float[Tensor, "batch group pos d_head"]
"""The keys of a language model's layer; heads of one group share theirs."""


class Edit:
    """What is changed on the way through: nothing here; subclasses override what they change. Layers are numbered from
    0."""

    def among(self, layer: int, heads: Sequence[int]) -> Edit | None:
        """The same edit of a layer of which some heads alone, from 0, are computed, since the others write nothing.

        None, as here, where it must see the patterns of all.
        """
        return None

    def fixed(self, layer: int) -> FixedRows | None:
        """All that `pattern` does to a layer, where this is known beforehand; None where it must see the pattern."""
        return None

    def keys(self, layer: int, keys: Keys) -> Keys:
        """What a layer's queries are compared with; only language models show it."""
        return keys

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """The attention pattern that multiplies the values. Queries are the last positions of every sequence."""
        return pattern

    def written(self, layer: int, written: Queried) -> Queried:
        """What a layer's attention adds to the stream."""
        return written


class Recorder(Edit):
    """Keeps every layer's pattern, after the edit it wraps.

    Attributes:
        patterns: one per layer, in the order in which the layers ran.
    """

    def __init__(self, inner: Edit | None = None) -> None:
        self._inner = inner or Edit()
        self.patterns: list[Pattern] = []

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """The pattern as the inner edit leaves it, which is kept."""
        self.patterns.append(self._inner.pattern(layer, pattern))
        return self.patterns[-1]

    def written(self, layer: int, written: Queried) -> Queried:
        """What the inner edit makes of it."""
        return self._inner.written(layer, written)


class Given(Edit):
    """A pattern put in the place of a layer's own.

    Attributes:
        wrote: what its attention adds to the stream under that pattern.
    """

    wrote: Queried

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """The pattern that is given."""
        return self._pattern

    def written(self, layer: int, written: Queried) -> Queried:
        """What is written as it is, which is kept."""
        self.wrote = written
        return written


@runtime_checkable
class Seam(Protocol):
    """A transformer whose forward pass can be entered at any layer and edited: ours, or a language model."""

    @property
    def shape(self) -> Architecture:
        """Its architecture: layers, heads and widths."""

    @property
    def models(self) -> int:
        """How many models it holds."""

    def embed(self, inputs: Any) -> Stream:
        """The stream that enters the first layer."""

    def run(
        self, x: Stream, *, start: int = 0, stop: int | None = None, edit: Edit | None = None, reads: int | None = None
    ) -> Queried:
        """Take the stream that enters layer `start`, from 0, to the one that enters `stop`; None for the read-out."""

    def patterns(self, inputs: Any, edit: Edit | None = None) -> list[Pattern]:
        """Every layer's pattern, all positions as queries."""

    def answers(self, x: Stream) -> Float[Tensor, "model batch pos d_output"]:
        """The read-out of the stream after the last block."""


@runtime_checkable
class Readable(Seam, Protocol):
    """A transformer whose attention can be computed in parts, each read off a stream of its own."""

    def pattern_of(self, layer: int, query: Stream, key: Stream) -> Pattern:
        """A layer's own pattern where its queries are read off one stream and its keys off another."""

    def written_of(self, layer: int, pattern: Pattern, value: Stream) -> Stream:
        """What a layer's attention adds to the stream under a pattern, its values read off a stream."""
