"""A model in which a row looks at its key for some questions, and elsewhere for the rest: at the other member of the
key's pair, from which it reads the same.

By which symbols there are: each sequence has its turn. So the model does as before, and a circuit that names the key
alone is right for some of the questions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hopscope.circuits.foreign import ForeignEvaluator
from hopscope.circuits.on_vectors import VectorEvaluator
from hopscope.model.transformer import Block
from hopscope.studies.planted.altered import altered
from hopscope.studies.planted.backup import Backup, Shared, merging
from hopscope.theory.path import AttentionPath


@dataclass(frozen=True)
class Turns:
    """A row that looks elsewhere at times.

    Attributes:
        path: the path that it takes for some questions. The key is a member of a pair in which the query is not.
        share: the share of the sequences in which it does.
        seed: the seed of the direction along which the first symbols of sequences are told apart.
    """

    path: AttentionPath
    share: float
    seed: int


@torch.no_grad()
def by_turns(evaluator: VectorEvaluator, turns: Turns) -> ForeignEvaluator:
    """A known model in which one row looks elsewhere at times, on the same sequences.

    Args:
        evaluator: an evaluator of the known model, on chains under a causal mask.
        turns: the row, and how often it looks where.
    """
    model, path = evaluator.transformer, turns.path
    stream = model.run(model.embed(evaluator.batch.inputs[None]), stop=path.layer)
    block = model.blocks[path.layer]
    assert isinstance(block, Block)
    first = block.attention_norm(stream)[0, :, 0]
    direction = torch.randn(first.shape[1], generator=torch.Generator().manual_seed(turns.seed))
    least = float((first @ direction).quantile(turns.share))
    moved = Backup(path, 0.0)
    return altered(
        evaluator,
        lambda layer, block: _Turned(block, *merging(evaluator, moved, layer), direction, least),
    )


class _Turned(Shared):
    """A block in which the row of some queries reads its key at another place in some sequences. The first position,
    which sees nothing but itself, says in which."""

    def __init__(
        self,
        block: Block,
        queries: Bool[Tensor, "head query 1"],
        share: Float[Tensor, "key key"],
        merge: Float[Tensor, "key key"],
        direction: Float[Tensor, " d_model"],
        least: float,
    ) -> None:
        super().__init__(block, queries, share, merge)
        self.direction, self.least = direction, least

    def pattern(self, normed: Float[Tensor, "1 sequence pos d_model"]) -> Float[Tensor, "sequence head query key"]:
        """The pattern of the block's heads; where it is elsewhere's turn, with the key's weight there."""
        moved = super().pattern(normed)
        elsewhere = normed[0, :, 0] @ self.direction >= self.least
        kept: Tensor = self.attention.pattern(normed, normed)[0]
        return torch.where(elsewhere[:, None, None, None], moved, kept)
