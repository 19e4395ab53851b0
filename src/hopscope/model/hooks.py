"""Hooks: read or replace attention patterns and outputs during a forward pass.

A forward pass takes one `Hooks` object, whose methods are called in every layer. All models with such passes are
`HookedModel`s: hopscope's transformer, torch modules of your own and language models.
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
"""The stream at the positions that are computed: all positions, or the last few."""

Pattern = Float[Tensor, "model batch head query key"]

Keys = Float[Tensor, "batch group pos d_head"]
"""The keys of a language model's layer. The heads of one group share the same keys."""


class Hooks:
    """Base class of hooks that read or replace keys, attention patterns and outputs in a forward pass.

    Subclasses override the methods that they need; this class changes nothing. Layers count from 0.

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
        """Return the keys with which a layer's queries are compared. Only language models call this method."""
        return keys

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """Return the attention pattern that weights the values. Queries are the last positions of every sequence."""
        return pattern

    def attn_out(self, layer: int, written: Queried) -> Queried:
        """Return the output that a layer's attention adds to the stream."""
        return written


class Patched(Hooks):
    """Hooks that record the patterns and attention outputs that other hooks return, or replace them, by layer."""

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
        """Record the inner hooks' pattern. Returns this pattern, or the one that replaces it."""
        self.patterns[layer] = self._inner.pattern(layer, pattern)
        return self._patterns.get(layer, self.patterns[layer])[..., -pattern.shape[-2] :, :]

    def attn_out(self, layer: int, written: Queried) -> Queried:
        """Record the inner hooks' output. Returns this output, or the one that replaces it."""
        self.written[layer] = self._inner.attn_out(layer, written)
        return self._written.get(layer, self.written[layer])[:, :, -written.shape[2] :]


class HookedModel(ABC):
    """A transformer whose forward pass takes hooks and can start or stop at any layer.

    Attributes:
        shape: the model's architecture: layers, heads and widths.
        models: number of models on the stream's leading axis.
        embed: a function or module that maps inputs to the stream that enters the first layer.
        answered: a function that is called whenever a language model has answered prompts, with their number.
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
        """Return the stream before layer `stop` (None: after the last layer), given the stream before layer `start`.

        Layers count from 0. `reads`: the number of last positions at which the last block is computed; None for all.
        """
        return self.run_layers(x, range(start, self.shape.layers if stop is None else stop), hooks, reads)

    @abstractmethod
    def run_layers(self, x: Stream, layers: range, hooks: Hooks | None, reads: int | None) -> Queried:
        """Run the given layers on the stream; see `run`."""

    def patterns(self, inputs: Any) -> list[Pattern]:
        """Return the attention pattern of every layer, with all positions as queries."""
        recorder = Patched()
        self.run(self.embed(inputs), hooks=recorder)
        return [*recorder.patterns.values()]

    @abstractmethod
    def answers(self, x: Stream) -> Float[Tensor, "model batch pos d_output"]:
        """Return the answers read out from the stream after the last block."""


class PatchableModel(HookedModel):
    """A hooked model whose queries, keys and values can be computed from different streams, as path patching needs."""

    @abstractmethod
    def pattern_of(self, layer: int, query: Stream, key: Stream) -> Pattern:
        """Return a layer's own pattern, with queries computed from the stream `query` and keys from `key`."""

    @abstractmethod
    def attn_out_of(self, layer: int, pattern: Pattern, value: Stream) -> Stream:
        """Return the output of a layer's attention under `pattern`, with values computed from the stream `value`."""


class AtItself(Hooks):
    """Hooks with which every position attends only to itself, in every head."""

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """Return the pattern with all weight on the position itself."""
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
    """Return how much positions affect each other, e.g. by a convolution, if every position attends only to itself.

    A mixed sequence takes every second position from `others` and the rest from `inputs`. At each position, `read` of
    the stream after the last block is compared with that of the unmixed sequence with the same input there. The result
    is the largest difference, relative to the largest value (at least 1).
    """
    second = torch.arange(inputs.shape[1], device=inputs.device) % 2 == 1
    mixed = torch.where(second.view(-1, *[1] * (inputs.ndim - 2)), others, inputs)
    own, other, both = (read(model.run(model.embed(x[None]), hooks=AtItself())) for x in (inputs, others, mixed))
    wanted = torch.where(second[-both.shape[2] :, None], other, own)
    return float((both - wanted).abs().max()) / max(1.0, float(wanted.abs().max()))
