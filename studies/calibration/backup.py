"""A model in which a key has a backup in its own row: the other member of the key's pair, where the row reads the same.

One row of a known model is altered. A share of the weight that the row puts on the key stays there. The rest goes to
the other member of the pair, where the row now reads what it reads at the key. The model answers as before, and either
of the two positions would be enough. A circuit that names only the key is half of a description, since the model loses
nothing without the key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

import hopscope as hs
from studies.calibration.altered import Altered, AlteredBlock, Known, start_of


@dataclass(frozen=True)
class Backup:
    """A key with a backup in its own row.

    Attributes:
        path: the path whose key has a backup. The query must not be in the key's pair.
        share: the share of the key's weight that stays on it; the rest goes to the backup.
    """

    path: hs.AttentionPath
    share: float

    @property
    def key(self) -> int:
        """The role of the backup."""
        return backup_of(self.path.key)


def backup_of(key: int) -> int:
    """Return the other member of the pair that a role belongs to."""
    return key ^ 1


def may_have_backup(problem: hs.RetrievalProblem, path: hs.AttentionPath) -> bool:
    """Whether the other member of the key's pair can serve as the key's backup."""
    of_query, of_key = problem.fact_of(path.query), problem.fact_of(path.key)
    return of_key > 0 and of_key != of_query


def with_backup(known: Known, backup: Backup) -> Altered:
    """Return a known model altered so that one row reads its key at two positions.

    Args:
        known: the known model.
        backup: the path, and the share of its key's weight that stays on the key.
    """
    return Altered(known.transformer, lambda layer, block: Shared(block, merging(known, backup, layer)))


class Merging(NamedTuple):
    """How a layer reads a key at two positions.

    `queries` marks the queries of the altered row, `share` splits the key's weight between the two positions, and
    `merge` makes the row read at both positions what is at the key."""

    queries: Bool[Tensor, "head query 1"]
    share: Float[Tensor, "key key"]
    merge: Float[Tensor, "key key"]


def merging(known: Known, backup: Backup, layer: int) -> Merging:
    """Return how a layer (from 0) reads a key that has a backup. Only the layer of the path has altered queries."""
    problem, row = known.problem, backup.path.row
    share, merge = (torch.eye(problem.sequence_length) for _ in range(2))
    for key, other in zip(places(problem, backup.path.key), places(problem, backup.key), strict=True):
        share[key, key], share[key, other] = backup.share, 1 - backup.share
        merge[other, other], merge[other, key] = 0.0, 1.0
    queries = torch.zeros(known.transformer.shape.heads, problem.sequence_length, 1, dtype=torch.bool)
    queries[row.head, places(problem, row.query)] = layer == row.layer
    return Merging(queries, share, merge)


def places(problem: hs.RetrievalProblem, role: int) -> list[int]:
    """Return the positions of a role, in all chains."""
    pair, chains = problem.fact_of(role), problem.chains
    if not pair:
        return [*range(start_of(problem, 0), start_of(problem, 0) + chains)]
    first = start_of(problem, pair) + role % 2
    return [*range(first, first + 2 * chains, 2)]


class Shared(AlteredBlock):
    """A block in which one row reads its key at two positions."""

    def __init__(self, block: Any, merging: Merging) -> None:
        super().__init__(block)
        self.queries, self.share, self.merge = merging

    def pattern(self, normed: Float[Tensor, "1 sequence pos d_model"]) -> Float[Tensor, "sequence head query key"]:
        """Return the pattern of the block's heads, with the key's weight shared between the two positions."""
        pattern: Tensor = self.attention.pattern(normed, normed)[0]
        return torch.where(self.queries, pattern @ self.share, pattern)

    def written(
        self, pattern: Float[Tensor, "sequence head query key"], normed: Float[Tensor, "1 sequence pos d_model"]
    ) -> Float[Tensor, "sequence pos d_model"]:
        """Return what the heads write. At the backup, the altered row reads what it reads at the key."""
        read = torch.where(self.queries, pattern @ self.merge, pattern)
        output: Tensor = self.attention.write(read[None], normed)[0]
        return output

    def untrain(self, head: int) -> None:
        """Undo the alteration of the head, which then reads each position as it is."""
        self.queries[head] = False
