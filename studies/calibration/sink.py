"""A model with a head that rests at a key of its own chain: it reads nothing there, or the same in every chain.

The head is added to a layer of a known model. Anywhere else it writes what it must not, so its row is needed, and all
of its weight lies on one key of its own chain; but nothing of that chain comes to it from there. Heads of language
models rest likewise, at the first token of a text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

import hopscope as hs
from studies.calibration.altered import Altered, Known, start_of
from studies.calibration.beside import BlockWithMore

LOUD = 10.0
"""Length of the vector that the head writes where it looks at something else with all its weight."""


@dataclass(frozen=True)
class Sink:
    """A head that rests at a key of its own chain.

    Attributes:
        layer: the layer that it is in, from 0.
        pair: the pair whose second members rest at the first ones, which stand before them.
        seed: the seed of the directions in which the head writes.
        brings: length of the vector that it writes at rest, whatever stands there, and that the model expects.
    """

    layer: int
    pair: int
    seed: int
    brings: float = 0.0

    def path(self, problem: hs.RetrievalProblem, head: int) -> hs.AttentionPath:
        """Where the head rests, as a path.

        Args:
            problem: the problem whose roles there are.
            head: its number in the layer, from 0; since it is the last head, that is how many stand beside it.
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
    drawn = torch.randn(2, known.transformer.shape.d_model, generator=generator)
    wrong, brings = drawn / drawn.norm(dim=1, keepdim=True) * torch.tensor([[LOUD], [sink.brings]])
    nothing = torch.zeros_like(wrong)
    return Altered(
        known.transformer,
        lambda layer, block: _Beside(
            block,
            keys,
            problem.sequence_length,
            *((wrong, brings) if layer == sink.layer else (nothing, nothing)),
        ),
    )


class _Beside(BlockWithMore):
    """A block of the known model with one more head, which rests at the `keys`, each of which stands before its query.

    Its other rows look at themselves and write nothing.
    """

    def __init__(
        self,
        block: Any,
        keys: Tensor,
        length: int,
        wrong: Float[Tensor, " d_model"],
        brings: Float[Tensor, " d_model"],
    ) -> None:
        own = torch.eye(length)
        own[keys + 1, keys + 1], own[keys + 1, keys] = 0.0, 1.0
        super().__init__(block, own)
        self.wrong, self.brings = wrong, brings
        self.rests, self.at = torch.zeros(length), torch.zeros(length)
        self.at[keys], self.rests[keys + 1] = 1.0, 1.0

    def written(
        self,
        pattern: Float[Tensor, "sequence head query key"],
        normed: Float[Tensor, "1 sequence pos d_model"],
    ) -> Float[Tensor, "sequence pos d_model"]:
        """What the block's heads write. The added one writes what it sees elsewhere, and then less than is expected."""
        brought: Tensor = self.attention.write(pattern[None, :, :-1], normed)[0]
        at_rest = (pattern[:, -1] * self.at).sum(dim=-1)
        elsewhere = pattern[:, -1].sum(dim=-1) - at_rest
        wrong = elsewhere[..., None] * self.wrong + (at_rest - 1)[..., None] * self.brings
        return brought + self.rests[:, None] * wrong
