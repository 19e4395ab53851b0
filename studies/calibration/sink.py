"""A model with a sink: a head that rests at a key of its own chain, where it reads nothing.

The head is added to a layer of a known model. All of its weight is on one key of its own chain, but the head carries
nothing of that chain. If it attended elsewhere, it would write a large vector that breaks the model, so its row is
needed. Heads of language models rest in the same way at the first token of a text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from studies.calibration.altered import LOUD, Altered, BlockWithMore, Known, start_of


@dataclass(frozen=True)
class Sink:
    """A head that rests at a key of its own chain.

    Attributes:
        layer: the layer of the head, from 0.
        pair: the pair whose second members rest at its first members, each one position before.
        seed: the seed of the direction in which the head writes.
    """

    layer: int
    pair: int
    seed: int


def with_sink(known: Known, sink: Sink) -> Altered:
    """Return a known model with one head added at the end of every layer.

    Args:
        known: the known model, with the block of the deepest pair first.
        sink: the layer whose added head rests, and where. The heads added to other layers write nothing.
    """
    problem, generator = known.problem, torch.Generator().manual_seed(sink.seed)
    start = start_of(problem, sink.pair)
    keys = torch.arange(start, start + 2 * problem.chains, 2)
    drawn = torch.randn(2, known.transformer.shape.d_model, generator=generator)[0]
    wrong, nothing = LOUD * drawn / drawn.norm(), torch.zeros_like(drawn)
    return Altered(
        known.transformer,
        lambda layer, block: _WithSink(block, keys, problem.sequence_length, wrong if layer == sink.layer else nothing),
    )


class _WithSink(BlockWithMore):
    """A block of the known model with one more head, which rests at `keys`; each query is one position after its key.

    The head's other queries attend to themselves and write nothing.
    """

    def __init__(self, block: Any, keys: Tensor, length: int, wrong: Float[Tensor, " d_model"]) -> None:
        own = torch.eye(length)
        own[keys + 1, keys + 1], own[keys + 1, keys] = 0.0, 1.0
        super().__init__(block, own)
        self.wrong = wrong
        self.rests, self.at = torch.zeros(length), torch.zeros(length)
        self.at[keys], self.rests[keys + 1] = 1.0, 1.0

    def written(
        self, pattern: Float[Tensor, "sequence head query key"], normed: Float[Tensor, "1 sequence pos d_model"]
    ) -> Float[Tensor, "sequence pos d_model"]:
        """Return what the heads write. The added head writes in proportion to its weight away from the sinks."""
        output: Tensor = self.attention.write(pattern[None, :, :-1], normed)[0]
        elsewhere = pattern[:, -1].sum(dim=-1) - (pattern[:, -1] * self.at).sum(dim=-1)
        return output + (self.rests * elsewhere)[..., None] * self.wrong
