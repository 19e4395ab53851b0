"""A known model with its attention altered, as a module of its own: each block attends and writes in a new way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.model.architecture import InitialWeights
from hopscope.model.initial_weights import with_untrained_heads
from hopscope.model.torch_module import Parts, TorchModule
from hopscope.model.transformer import Attention, Block, Transformer


class AlteredBlock(nn.Module, ABC):
    """A block of a known model that attends, and writes what it reads, as a subclass says.

    Args:
        block: the block.
    """

    def __init__(self, block: Block) -> None:
        super().__init__()
        self.block, self.seen = block, nn.Identity()

    @property
    def attention(self) -> Attention:
        """The attention of the block as it was."""
        return self.block.attention

    @abstractmethod
    def pattern(self, normed: Float[Tensor, "1 sequence pos d_model"]) -> Float[Tensor, "sequence head query key"]:
        """The attention pattern of all heads."""

    @abstractmethod
    def written(
        self,
        pattern: Float[Tensor, "sequence head query key"],
        normed: Float[Tensor, "1 sequence pos d_model"],
    ) -> Float[Tensor, "sequence pos d_model"]:
        """What all heads write to the stream, given their pattern."""

    @abstractmethod
    def untrain(self, head: int) -> None:
        """Undo the alteration of a head, from 0, for its weights are initial ones."""

    def forward(self, x: Float[Tensor, "sequence pos d_model"]) -> Float[Tensor, "sequence pos d_model"]:
        """The stream after the block."""
        normed = self.block.attention_norm(x[None])
        x = x + self.written(self.seen(self.pattern(normed)), normed)
        return x if self.block.mlp is None else x + self.block.mlp(self.block.mlp_norm(x[None]))[0]


def altered(evaluator: VectorEvaluator, alter: Callable[[int, Block], AlteredBlock]) -> VectorEvaluator:
    """A known model with its blocks altered, on the same sequences.

    Args:
        evaluator: an evaluator of the known model.
        alter: makes of each block, with its number from 0, the one in its place.
    """
    problem, inputs = evaluator.problem, evaluator.batch.inputs
    whole = _Whole(evaluator.transformer, alter)

    def untrain(whole: _Whole, layer: int, head: int) -> None:
        whole.untrain(layer, head, evaluator.initial)

    made = TorchModule.of(whole, _parts, untrain, inputs[:2], evaluator.shape.reads, problem.causal)
    return VectorEvaluator(made, problem, evaluator.batch)


class _Whole(nn.Module):
    """The known model, its blocks altered."""

    def __init__(self, transformer: Transformer, alter: Callable[[int, Block], AlteredBlock]) -> None:
        super().__init__()
        self.transformer = transformer
        self.blocks = nn.ModuleList(
            alter(layer, block) for layer, block in enumerate(transformer.blocks) if isinstance(block, Block)
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
        """Give a head initial weights; one that was added has none, and is left to its block."""
        if head < self.transformer.shape.heads:
            seed = int(torch.randint(2**31, ()))
            fresh = with_untrained_heads(self.transformer, [(layer, head)], seed, drawn)
            self.transformer.load_state_dict(fresh.state_dict())
        self.altered[layer].untrain(head)

    @property
    def altered(self) -> list[AlteredBlock]:
        """The blocks, first to last."""
        return [block for block in self.blocks if isinstance(block, AlteredBlock)]


def _parts(whole: _Whole) -> Parts:
    return Parts(whole.embed, whole.altered, whole.read, [block.seen for block in whole.altered])
