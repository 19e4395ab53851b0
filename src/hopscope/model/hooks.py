"""Hooks: read or replace attention patterns and outputs during a forward pass.

One pass runs with one `Hooks` object, whose methods are called in every layer. Whatever has such passes is a
`HookedModel`: our transformer, a torch module of yours, a language model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hopscope.model.architecture import Architecture

Stream = Float[Tensor, "model batch pos d_model"]
"""The residual stream at all positions."""

Queried = Float[Tensor, "model batch query d_model"]
"""The stream at the positions that are computed: all, or the last few."""

Pattern = Float[Tensor, "model batch head query key"]

Keys = Float[Tensor, "batch group pos d_head"]
"""The keys of a language model's layer; heads of one group share theirs."""


class Hooks:
    """What is read or replaced in a forward pass: nothing in this class; subclasses override what they need. Layers
    count from 0.

        >>> import hopscope as hs
        >>> class Silent(hs.Hooks):
        ...     def attn_out(self, layer, written):
        ...         return 0 * written
        >>> made = hs.theory.build_witness(1)
        >>> stream = made.transformer.embed(hs.sample(made.problem, 2, torch.Generator()).inputs[None])
        >>> torch.equal(made.transformer.run(stream, hooks=Silent()), stream)
        True
    """

    def keys(self, layer: int, keys: Keys) -> Keys:
        """The keys that a layer's queries are compared with; only language models call this."""
        return keys

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """The attention pattern that multiplies the values. Queries are the last positions of every sequence."""
        return pattern

    def attn_out(self, layer: int, written: Queried) -> Queried:
        """What a layer's attention adds to the stream."""
        return written


class PatternRecorder(Hooks):
    """Records every layer's pattern, in the order in which the layers run."""

    def __init__(self) -> None:
        self.patterns: list[Pattern] = []

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """The pattern, recorded."""
        self.patterns.append(pattern)
        return pattern


class Patched(Hooks):
    """Records patterns and what attention writes, by layer, as other hooks leave them; or replaces either by layer."""

    def __init__(
        self,
        inner: Hooks | None = None,
        patterns: Mapping[int, Pattern] | None = None,
        written: Mapping[int, Stream] | None = None,
    ) -> None:
        self._inner, self._patterns, self._written = inner or Hooks(), patterns or {}, written or {}
        self.patterns: dict[int, Pattern] = {}
        self.written: dict[int, Queried] = {}

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """The inner hooks' pattern, recorded; or what replaces it."""
        self.patterns[layer] = self._inner.pattern(layer, pattern)
        return self._patterns.get(layer, self.patterns[layer])[..., -pattern.shape[-2] :, :]

    def attn_out(self, layer: int, written: Queried) -> Queried:
        """The inner hooks' output, recorded; or what replaces it."""
        self.written[layer] = self._inner.attn_out(layer, written)
        return self._written.get(layer, self.written[layer])[:, :, -written.shape[2] :]


class HookedModel(ABC):
    """A transformer whose forward pass takes hooks and can start or stop at any layer.

    Attributes:
        shape: its architecture: layers, heads and widths.
        models: how many models it holds.
        embed: a function or module that gives, for inputs, the stream that enters the first layer.
        answered: called, of a language model, with how many more prompts were read to the end.
    """

    shape: Architecture
    models: int
    embed: Callable[[Any], Stream]
    answered: Callable[[int], None] = staticmethod(lambda prompts: None)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return torch.device("cpu")

    def run(
        self,
        x: Stream,
        *,
        start: int = 0,
        stop: int | None = None,
        hooks: Hooks | None = None,
        reads: int | None = None,
    ) -> Queried:
        """Take the stream that enters layer `start`, from 0, to the one that enters `stop`; None for the read-out.

        `reads` is the number of last positions at which the very last block is computed; None for all.
        """
        return self.run_layers(x, range(start, self.shape.layers if stop is None else stop), hooks, reads)

    @abstractmethod
    def run_layers(self, x: Stream, layers: range, hooks: Hooks | None, reads: int | None) -> Queried:
        """Take the stream through some layers, see `run`."""

    def patterns(self, inputs: Any) -> list[Pattern]:
        """Every layer's pattern, all positions as queries."""
        recorder = PatternRecorder()
        self.run(self.embed(inputs), hooks=recorder)
        return recorder.patterns

    @abstractmethod
    def answers(self, x: Stream) -> Float[Tensor, "model batch pos d_output"]:
        """The read-out of the stream after the last block."""


class PatchableModel(HookedModel):
    """A hooked model whose queries, keys and values can be computed from different streams, as path patching needs."""

    @abstractmethod
    def pattern_of(self, layer: int, query: Stream, key: Stream) -> Pattern:
        """A layer's own pattern with its queries computed from one stream and its keys from another."""

    @abstractmethod
    def attn_out_of(self, layer: int, pattern: Pattern, value: Stream) -> Stream:
        """What a layer's attention adds to the stream under a pattern, with its values computed from a stream."""


class AtItself(Hooks):
    """Every position attends to itself, in every head."""

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """All weight on the position itself."""
        queries, keys = pattern.shape[-2:]
        itself = torch.eye(keys, dtype=pattern.dtype, device=pattern.device)[keys - queries :]
        return itself.expand(pattern.shape)


@torch.no_grad()
def reach_beside(
    model: HookedModel,
    inputs: Float[Tensor, "batch pos d_input"] | Int[Tensor, "batch pos"],
    others: Float[Tensor, "batch pos d_input"] | Int[Tensor, "batch pos"],
    read: Callable[[Stream], Queried] = lambda x: x,
) -> float:
    """How much positions that attend to themselves alone still depend on their neighbours, as a share of the largest
    value, or of 1: as with a short convolution, or a second attention without hooks.

    Every second position of `others` is put among the inputs; of the stream after the last block, `read` is compared.
    """
    second = torch.arange(inputs.shape[1], device=inputs.device) % 2 == 1
    mixed = torch.where(second.view(-1, *[1] * (inputs.ndim - 2)), others, inputs)
    own, other, both = (read(model.run(model.embed(x[None]), hooks=AtItself())) for x in (inputs, others, mixed))
    wanted = torch.where(second[-both.shape[2] :, None], other, own)
    return float((both - wanted).abs().max()) / max(1.0, float(wanted.abs().max()))
