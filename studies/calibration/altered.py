"""Models whose circuit is known, with altered blocks: each block can attend and write in a new way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn

import hopscope as hs


class Known(Protocol):
    """A transformer that holds one model, whose circuit is known; for example, an `hs.theory.Witness`."""

    @property
    def transformer(self) -> hs.Transformer:
        """The transformer."""

    @property
    def problem(self) -> hs.RetrievalProblem:
        """The problem that the transformer answers. The block of the deepest pair must come first."""


def start_of(problem: hs.RetrievalProblem, pair: int) -> int:
    """Return the first position of a pair's block (pairs count from 1), or of the queries if `pair` is 0."""
    return 2 * problem.chains * ((problem.hops - pair) if pair else problem.hops)


LOUD = 10.0
"""Length of the vector that an added head writes if it does not rest."""


def tying_path(problem: hs.RetrievalProblem, layer: int, head: int, pair: int) -> hs.AttentionPath:
    """Return the path along which a pair's second members attend to its first; layer and head count from 0."""
    return hs.AttentionPath(layer, head, problem.roles.index(f">x{pair}"), problem.roles.index(f"x{pair - 1}>"))


class AlteredBlock(nn.Module, ABC):
    """A block of a known model. A subclass defines its attention pattern and what its heads write.

    Args:
        block: the original block.
    """

    def __init__(self, block: Any) -> None:
        super().__init__()
        self.block, self.seen = block, nn.Identity()

    @property
    def attention(self) -> Any:
        """The attention module of the original block."""
        return self.block.attention

    @abstractmethod
    def pattern(self, normed: Float[Tensor, "1 sequence pos d_model"]) -> Float[Tensor, "sequence head query key"]:
        """Return the attention pattern of all heads."""

    @abstractmethod
    def written(
        self, pattern: Float[Tensor, "sequence head query key"], normed: Float[Tensor, "1 sequence pos d_model"]
    ) -> Float[Tensor, "sequence pos d_model"]:
        """Return the sum of what all heads write to the residual stream, given their pattern."""

    @abstractmethod
    def untrain(self, head: int) -> None:
        """Undo the alteration of a head (from 0) whose weights have been replaced by initial weights."""

    def forward(self, x: Float[Tensor, "sequence pos d_model"]) -> Float[Tensor, "sequence pos d_model"]:
        """Return the residual stream after the block."""
        normed = self.block.attention_norm(x[None])
        x = x + self.written(self.seen(self.pattern(normed)), normed)
        return x if self.block.mlp is None else x + self.block.mlp(self.block.mlp_norm(x[None]))[0]


class AlteredBlockAsItWas(AlteredBlock):
    """A block of the known model, unaltered."""

    def pattern(self, normed: Float[Tensor, "1 sequence pos d_model"]) -> Float[Tensor, "sequence head query key"]:
        """Return the attention pattern of all heads."""
        pattern: Tensor = self.attention.pattern(normed, normed)[0]
        return pattern

    def written(
        self, pattern: Float[Tensor, "sequence head query key"], normed: Float[Tensor, "1 sequence pos d_model"]
    ) -> Float[Tensor, "sequence pos d_model"]:
        """Return the sum of what all heads write to the residual stream, given their pattern."""
        output: Tensor = self.attention.write(pattern[None], normed)[0]
        return output

    def untrain(self, head: int) -> None:
        """Do nothing, since no head is altered."""


class BlockWithMore(AlteredBlock, ABC):
    """A block of the known model with heads added after its own, all with the same pattern.

    Args:
        block: the original block.
        own: the pattern of the added heads.
        more: the number of added heads.
    """

    def __init__(self, block: Any, own: Float[Tensor, "query key"], more: int = 1) -> None:
        super().__init__(block)
        self.own, self.more = own, more

    def pattern(self, normed: Float[Tensor, "1 sequence pos d_model"]) -> Float[Tensor, "sequence head query key"]:
        """Return the pattern of the block's own heads, followed by the pattern of the added heads."""
        pattern = self.attention.pattern(normed, normed)[0]
        return torch.cat([pattern, self.own.expand(len(pattern), self.more, *self.own.shape)], dim=1)

    def untrain(self, head: int) -> None:
        """Make the attention of the added heads uniform, if `head` is one of them. No other head is altered."""
        if head >= self.attention.heads:
            self.own = uniform(self.own, causal=self.attention.causal)


def uniform(pattern: Float[Tensor, "query key"], *, causal: bool) -> Float[Tensor, "query key"]:
    """Return a pattern of the same shape in which each query attends equally to every position that it sees."""
    seen = torch.ones_like(pattern)
    seen = seen.tril() if causal else seen
    return seen / seen.sum(dim=-1, keepdim=True)


class Altered(nn.Module):
    """A known model with its blocks altered.

    Args:
        transformer: the known model.
        alter: given a layer (from 0) and its block, returns the block that replaces it.
    """

    def __init__(self, transformer: hs.Transformer, alter: Callable[[int, Any], AlteredBlock]) -> None:
        super().__init__()
        self.transformer = transformer
        self.blocks = nn.ModuleList(alter(layer, block) for layer, block in enumerate(transformer.blocks))

    def embed(self, inputs: Float[Tensor, "sequence pos d_input"]) -> Float[Tensor, "sequence pos d_model"]:
        """Return the residual stream that enters the first block."""
        stream: Tensor = self.transformer.embed(inputs[None])[0]
        return stream

    def read(self, x: Float[Tensor, "sequence pos d_model"]) -> Float[Tensor, "sequence pos d_output"]:
        """Return the answers, read from the residual stream."""
        return self.transformer.answers(x[None])[0]

    def forward(self, inputs: Float[Tensor, "sequence pos d_input"]) -> Float[Tensor, "sequence pos d_output"]:
        """Return the answers of the whole model."""
        x = self.embed(inputs)
        for block in self.blocks:
            x = block(x)
        return self.read(x)

    def untrain(self, layer: int, head: int) -> None:
        """Draw new weights for a head. An added head has no weights; its block undoes the alteration."""
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
        """The altered blocks, from the first to the last layer."""
        return [block for block in self.blocks if isinstance(block, AlteredBlock)]

    @property
    def parts(self) -> hs.Parts:
        """The parts of the model, in the form that `hs.Model.from_torch` needs."""
        return hs.Parts(self.embed, self.altered, self.read, [block.seen for block in self.altered])

    def model(self, problem: hs.RetrievalProblem) -> Any:
        """Return the model in the form in which it can be ablated and its circuits checked."""
        return hs.Model.from_torch(self, problem, lambda model: model.parts, lambda model, *head: model.untrain(*head))
