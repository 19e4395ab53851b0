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
        """Undo the alteration of a head, from 0, whose weights are replaced by initial ones."""

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
        output: Tensor = self.attention.write(pattern[None], normed)[0]
        return output

    def untrain(self, head: int) -> None:
        """Nothing was altered."""


class BlockWithMore(AlteredBlock, ABC):
    """A block of the known model with more heads, the last ones, all of one pattern.

    Args:
        block: the block.
        own: the pattern of the added heads.
        more: how many there are.
    """

    def __init__(self, block: Any, own: Float[Tensor, "query key"], more: int = 1) -> None:
        super().__init__(block)
        self.own, self.more = own, more

    def pattern(self, normed: Float[Tensor, "1 sequence pos d_model"]) -> Float[Tensor, "sequence head query key"]:
        """The pattern of the block's heads, and that of the added ones."""
        pattern = self.attention.pattern(normed, normed)[0]
        return torch.cat([pattern, self.own.expand(len(pattern), self.more, *self.own.shape)], dim=1)

    def untrain(self, head: int) -> None:
        """Let the added heads attend everywhere alike; the others were not altered."""
        if head >= self.attention.heads:
            self.own = uniform(self.own, causal=self.attention.causal)


def uniform(pattern: Float[Tensor, "query key"], *, causal: bool) -> Float[Tensor, "query key"]:
    """The pattern, of the same size, that has the same weight on everything that a query sees."""
    seen = torch.ones_like(pattern)
    seen = seen.tril() if causal else seen
    return seen / seen.sum(dim=-1, keepdim=True)


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
        """Draw new weights for a head; one that was added has none, and is left to its block."""
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
        """The model, to ablate and to check circuits of."""
        return hs.Model.from_torch(self, problem, lambda model: model.parts, lambda model, *head: model.untrain(*head))
