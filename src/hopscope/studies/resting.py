"""A model of which one head rests: most of its weight lies where it reads nothing, and some on a key, for no use.

The head is put beside those of a layer of a model that is known. The stream must not hear what it reads, so its row is
needed, and what little it looks at is not: a circuit that has the row with all that it looks at claims a path too many.
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
"""Length of what the head writes where it does not rest at all."""


@dataclass(frozen=True)
class Rest:
    """A head that rests.

    Attributes:
        layer: that it is in, from 0.
        pair: whose second members rest; they look at the first, which stands before them. Not the last pair, which
            stands where they rest.
        weight: of that look.
        seed: of the direction in which the head writes what it reads where it does not rest.
    """

    layer: int
    pair: int
    weight: float
    seed: int

    def path(self, problem: RetrievalProblem, head: int) -> AttentionPath:
        """What the head looks at, and what it is not needed for.

        Args:
            problem: whose roles there are.
            head: its number, that of the heads beside it.
        """
        return AttentionPath(
            self.layer, head, problem.roles.index(f">x{self.pair}"), problem.roles.index(f"x{self.pair - 1}>")
        )


def resting(evaluator: VectorEvaluator, rest: Rest) -> ForeignEvaluator:
    """A known model with one more head in every layer, the last of each, on the same sequences.

    Args:
        evaluator: of the known model, of chains deepest first.
        rest: which of those heads rests, and how; the others write nothing.
    """
    problem, inputs = evaluator.problem, evaluator.batch.inputs
    whole = _Whole(evaluator.transformer, _pattern(problem, rest), rest)

    def untrain(whole: _Whole, layer: int, head: int) -> None:
        whole.untrain(layer, head, evaluator.initial)

    made = Foreign.of(whole, _parts, untrain, inputs[:2], evaluator.shape.reads, problem.causal)
    return ForeignEvaluator(made, problem, evaluator.batch)


def _pattern(problem: RetrievalProblem, rest: Rest) -> Float[Tensor, "query key"]:
    """The head's own: the first position, which stands for a place to rest at, and a little the one before."""
    length = problem.sequence_length
    pattern = torch.zeros(length, length)
    pattern[:, 0] = 1
    start = layout(problem).starts[rest.pair - 1]
    for place in range(start + 1, start + 2 * problem.chains, 2):
        pattern[place, 0], pattern[place, place - 1] = 1 - rest.weight, rest.weight
    return pattern


class _Beside(nn.Module):
    """A block of the known model and one more head: that which rests, or, in other layers, one that writes nothing."""

    def __init__(self, block: Block, own: Float[Tensor, "query key"], direction: Float[Tensor, " d_model"]) -> None:
        super().__init__()
        self.block, self.own, self.direction, self.seen = block, own, direction, nn.Identity()
        self.writes = (own[:, 0] < 1).to(own.dtype)

    def forward(self, x: Float[Tensor, "sequence pos d_model"]) -> Float[Tensor, "sequence pos d_model"]:
        """The stream after it. What the head reads it writes where its row rests, and nowhere else."""
        attention, normed = self.block.attention, self.block.attention_norm(x[None])
        theirs = attention.pattern(normed, normed)[0]
        pattern: Tensor = self.seen(torch.cat([theirs, self.own.expand(len(x), 1, *self.own.shape)], dim=1))
        brought: Tensor = attention.write(pattern[None, :, :-1], normed)[0]
        read = pattern[:, -1, :, 1:].sum(dim=-1)  # of what it sees, all but the place to rest at
        x = x + brought + (read * self.writes)[..., None] * self.direction
        return x if self.block.mlp is None else x + self.block.mlp(self.block.mlp_norm(x[None]))[0]


class _Whole(nn.Module):
    """The known model with the head that rests in one of its layers."""

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
        """The answers."""
        return self.transformer.answers(x[None])[0]

    def forward(self, inputs: Float[Tensor, "sequence pos d_input"]) -> Float[Tensor, "sequence pos d_output"]:
        """All of it."""
        x = self.embed(inputs)
        for block in self.blocks:
            x = block(x)
        return self.read(x)

    def untrain(self, layer: int, head: int, drawn: InitialWeights) -> None:
        """Give a head initial weights; the one that rests looks everywhere alike without its own."""
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
