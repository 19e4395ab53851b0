"""A known model with its attention altered, as a module of its own: each block attends and writes in a new way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn

import hopscope as hs


class Known(Protocol):
    """A transformer with one model whose circuit is known, as an `hs.theory.Witness` is."""

    @property
    def transformer(self) -> hs.Transformer:
        """The transformer."""

    @property
    def problem(self) -> hs.RetrievalProblem:
        """The problem that it answers, on chains deepest first."""


def start_of(problem: hs.RetrievalProblem, pair: int) -> int:
    """The first position of a pair's block, from 1, deepest first; of the queries for 0."""
    return 2 * problem.chains * ((problem.hops - pair) if pair else problem.hops)


class AlteredBlock(nn.Module, ABC):
    """A block of a known model that attends, and writes what it reads, as a subclass says.

    Args:
        block: the block.
    """

    def __init__(self, block: Any) -> None:
        super().__init__()
        self.block, self.seen = block, nn.Identity()

    @property
    def attention(self) -> Any:
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


class AlteredBlockAsItWas(AlteredBlock):
    """A block of the known model, unaltered."""

    def pattern(self, normed: Float[Tensor, "1 sequence pos d_model"]) -> Float[Tensor, "sequence head query key"]:
        """The attention pattern of all heads."""
        pattern: Tensor = self.attention.pattern(normed, normed)[0]
        return pattern

    def written(
        self,
        pattern: Float[Tensor, "sequence head query key"],
        normed: Float[Tensor, "1 sequence pos d_model"],
    ) -> Float[Tensor, "sequence pos d_model"]:
        """What all heads write to the stream, given their pattern."""
        written: Tensor = self.attention.write(pattern[None], normed)[0]
        return written

    def untrain(self, head: int) -> None:
        """Nothing was altered."""


class Altered(nn.Module):
    """A known model with its blocks altered.

    Args:
        transformer: the known model.
        alter: makes of each block, with its number from 0, the one in its place.
    """

    def __init__(self, transformer: hs.Transformer, alter: Callable[[int, Any], AlteredBlock]) -> None:
        super().__init__()
        self.transformer = transformer
        self.blocks = nn.ModuleList(alter(layer, block) for layer, block in enumerate(transformer.blocks))

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

    def untrain(self, layer: int, head: int) -> None:
        """Give a head weights drawn anew; one that was added has none, and is left to its block."""
        attention: Any = self.transformer.blocks[layer].attention
        if head < self.transformer.shape.heads:
            here = slice(head * attention.d_head, (head + 1) * attention.d_head)
            with torch.no_grad():
                for maps in (attention.query, attention.key, attention.value):
                    maps.weight[..., here].normal_(0.0, self.transformer.shape.d_model**-0.5)
                attention.out.weight[:, here].normal_(0.0, attention.d_head**-0.5)
        self.altered[layer].untrain(head)

    @property
    def altered(self) -> list[AlteredBlock]:
        """The blocks, first to last."""
        return [block for block in self.blocks if isinstance(block, AlteredBlock)]

    @property
    def parts(self) -> hs.Parts:
        """The parts, as `hs.Model.from_torch` asks for them."""
        return hs.Parts(self.embed, self.altered, self.read, [block.seen for block in self.altered])

    def model(self, problem: hs.RetrievalProblem) -> Any:
        """The model to look at, ablate, and certify circuits of."""
        return hs.Model.from_torch(self, problem, lambda one: one.parts, lambda one, *head: one.untrain(*head))
