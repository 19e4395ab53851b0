"""A model with a sink: a head that rests at a key of its own chain, where it reads nothing.

The head is added to a layer of a known model. Anywhere else it writes what it must not, so its row is needed, and all
of its weight is on one key of its own chain; but nothing of that chain is carried from there. Heads of language models
rest likewise, at the first token of a text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

import hopscope as hs
from studies.calibration.altered import Altered, BlockWithMore, Known, start_of

MAGNITUDE = 10.0
"""Length of the vector that the head writes where it attends to something else with all its weight."""


@dataclass(frozen=True)
class Sink:
    """A head that rests at a key of its own chain.

    Attributes:
        layer: the layer that it is in, from 0.
        pair: the pair whose second members rest at the first ones, the positions before them.
        seed: the seed of the direction in which the head writes.
    """

    layer: int
    pair: int
    seed: int

    def path(self, problem: hs.RetrievalProblem, head: int) -> hs.AttentionPath:
        """Where the head rests, as a path.

        Args:
            problem: the problem, for its roles.
            head: its number in the layer, from 0: as many as the known model has, since it is the last.
        """
        roles = problem.roles
        return hs.AttentionPath(self.layer, head, roles.index(f">x{self.pair}"), roles.index(f"x{self.pair - 1}>"))


def with_sink(known: Known, sink: Sink) -> Altered:
    """A known model with one more head in every layer, the last of each.

    Args:
        known: the known model, on chains deepest first.
        sink: which of the added heads rests, and where; the others write nothing.
    """
    problem, generator = known.problem, torch.Generator().manual_seed(sink.seed)
    start = start_of(problem, sink.pair)
    keys = torch.arange(start, start + 2 * problem.chains, 2)
    drawn = torch.randn(2, known.transformer.shape.d_model, generator=generator)[0]
    wrong, nothing = MAGNITUDE * drawn / drawn.norm(), torch.zeros_like(drawn)
    return Altered(
        known.transformer,
        lambda layer, block: _WithSink(block, keys, problem.sequence_length, wrong if layer == sink.layer else nothing),
    )


class _WithSink(BlockWithMore):
    """A block of the known model with one more head, which rests at the `keys`, each the position before its query.

    Its other rows attend to themselves and write nothing.
    """

    def __init__(self, block: Any, keys: Tensor, length: int, wrong: Float[Tensor, " d_model"]) -> None:
        own = torch.eye(length)
        own[keys + 1, keys + 1], own[keys + 1, keys] = 0.0, 1.0
        super().__init__(block, own)
        self.wrong = wrong
        self.rests, self.at = torch.zeros(length), torch.zeros(length)
        self.at[keys], self.rests[keys + 1] = 1.0, 1.0

    def written(
        self,
        pattern: Float[Tensor, "sequence head query key"],
        normed: Float[Tensor, "1 sequence pos d_model"],
    ) -> Float[Tensor, "sequence pos d_model"]:
        """What the block's heads write; the added one writes how much it attends to elsewhere."""
        output: Tensor = self.attention.write(pattern[None, :, :-1], normed)[0]
        elsewhere = pattern[:, -1].sum(dim=-1) - (pattern[:, -1] * self.at).sum(dim=-1)
        return output + (self.rests * elsewhere)[..., None] * self.wrong
