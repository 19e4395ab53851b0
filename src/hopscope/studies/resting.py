"""A model with a head that rests: most of its weight lies where it reads nothing, and some on a key, for no use.

The head is added to a layer of a known model. What it reads must not reach the stream, so its row is needed, but the
little that it looks at is not: a circuit that has the row with all that it looks at claims one path too many.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hopscope.circuits.foreign import ForeignEvaluator
from hopscope.circuits.on_vectors import VectorEvaluator
from hopscope.model.foreign import Foreign, Parts
from hopscope.model.initial_weights import InitialWeights
from hopscope.model.transformer import Block, Transformer
from hopscope.model.untrained import with_untrained_heads
from hopscope.problem.layout import layout
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.path import AttentionPath

LOUD = 10.0
"""Length of the vector that the head writes where it does not rest at all."""


@dataclass(frozen=True)
class Rest:
    """A head that rests.

    Attributes:
        layer: the layer that it is in, from 0.
        pair: the pair whose second members rest; they look at the first members, which stand before them. It is not the
            last pair, which stands where they rest.
        weight: the attention weight of that look.
        seed: the seed of the direction in which the head writes what it reads where it does not rest.
    """

    layer: int
    pair: int
    weight: float
    seed: int

    def path(self, problem: RetrievalProblem, head: int) -> AttentionPath:
        """The path along which the head looks, for which it is not needed.

        Args:
            problem: the problem whose roles there are.
            head: its number in the layer, from 0; since it is the last head, that is how many stand beside it.
        """
        return AttentionPath(
            self.layer, head, problem.roles.index(f">x{self.pair}"), problem.roles.index(f"x{self.pair - 1}>")
        )


def resting(evaluator: VectorEvaluator, rest: Rest) -> ForeignEvaluator:
    """A known model with one more head in every layer, the last of each, on the same sequences.

    Args:
        evaluator: an evaluator of the known model, on chains deepest first.
        rest: which of the added heads rests, and how; the others write nothing.
    """
    problem, inputs = evaluator.problem, evaluator.batch.inputs
    whole = _Whole(evaluator.transformer, _pattern(problem, rest), rest)

    def untrain(whole: _Whole, layer: int, head: int) -> None:
        whole.untrain(layer, head, evaluator.initial)

    made = Foreign.of(whole, _parts, untrain, inputs[:2], evaluator.shape.reads, problem.causal)
    return ForeignEvaluator(made, problem, evaluator.batch)


def _pattern(problem: RetrievalProblem, rest: Rest) -> Float[Tensor, "query key"]:
    """The attention of the added head: on the first position, which stands for a place to rest at, and a little on the
    position before."""
    length = problem.sequence_length
    pattern = torch.zeros(length, length)
    pattern[:, 0] = 1
    start = layout(problem).starts[rest.pair - 1]
    for place in range(start + 1, start + 2 * problem.chains, 2):
        pattern[place, 0], pattern[place, place - 1] = 1 - rest.weight, rest.weight
    return pattern


class _Beside(nn.Module):
    """A block of the known model with one more head: the resting one or, in other layers, one that writes nothing."""

    def __init__(self, block: Block, own: Float[Tensor, "query key"], direction: Float[Tensor, " d_model"]) -> None:
        super().__init__()
        self.block, self.own, self.direction, self.seen = block, own, direction, nn.Identity()
        self.writes = (own[:, 0] < 1).to(own.dtype)

    def forward(self, x: Float[Tensor, "sequence pos d_model"]) -> Float[Tensor, "sequence pos d_model"]:
        """The stream after the block. The head writes what it reads where its row rests, and nowhere else."""
        attention, normed = self.block.attention, self.block.attention_norm(x[None])
        theirs = attention.pattern(normed, normed)[0]
        pattern: Tensor = self.seen(torch.cat([theirs, self.own.expand(len(x), 1, *self.own.shape)], dim=1))
        brought: Tensor = attention.write(pattern[None, :, :-1], normed)[0]
        read = pattern[:, -1, :, 1:].sum(dim=-1)  # of what it sees, everything but the place to rest at
        x = x + brought + (read * self.writes)[..., None] * self.direction
        return x if self.block.mlp is None else x + self.block.mlp(self.block.mlp_norm(x[None]))[0]


class _Whole(nn.Module):
    """The known model, with the head that rests in one of its layers."""

    def __init__(self, transformer: Transformer, own: Float[Tensor, "query key"], rest: Rest) -> None:
        super().__init__()
        self.transformer = transformer
        generator = torch.Generator().manual_seed(rest.seed)
        direction = torch.randn(transformer.shape.d_model, generator=generator)
        there, nowhere = LOUD * direction / direction.norm(), torch.zeros_like(direction)
        self.blocks = nn.ModuleList(
            _Beside(block, own, there if layer == rest.layer else nowhere)
            for layer, block in enumerate(transformer.blocks)
            if isinstance(block, Block)
        )

    def embed(self, inputs: Float[Tensor, "sequence pos d_input"]) -> Float[Tensor, "sequence pos d_model"]:
        """The stream that enters the first block."""
        stream: Tensor = self.transformer.embed(inputs[None])[0]
        return stream

    def read(self, x: Float[Tensor, "sequence pos d_model"]) -> Float[Tensor, "sequence pos d_output"]:
        """The answers, read from the stream."""
        return self.transformer.answers(x[None])[0]

    def forward(self, inputs: Float[Tensor, "sequence pos d_input"]) -> Float[Tensor, "sequence pos d_output"]:
        """The answers of the whole model."""
        x = self.embed(inputs)
        for block in self.blocks:
            x = block(x)
        return self.read(x)

    def untrain(self, layer: int, head: int, drawn: InitialWeights) -> None:
        """Give a head initial weights; the added head then attends everywhere alike."""
        if head < self.transformer.shape.heads:
            seed = int(torch.randint(2**31, ()))
            fresh = with_untrained_heads(self.transformer, [(layer, head)], seed, drawn)
            self.transformer.load_state_dict(fresh.state_dict())
        else:
            block = self.blocks[layer]
            assert isinstance(block, _Beside)
            seen = torch.ones_like(block.own)
            seen = seen.tril() if self.transformer.shape.causal else seen
            block.own = seen / seen.sum(dim=-1, keepdim=True)


def _parts(whole: _Whole) -> Parts:
    blocks = [block for block in whole.blocks if isinstance(block, _Beside)]
    return Parts(whole.embed, blocks, whole.read, [block.seen for block in blocks])
