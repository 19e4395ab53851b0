"""M transformers at once, GPT-2 style, as plain mathematics.

A block is x = x + attention(norm(x)), then x = x + mlp(norm(x)). After the last block: norm, and a linear read-out at
the last `reads` positions. Inputs are vectors, not tokens; position codes are part of them.

Every weight and every activation has a leading `model` axis: model m computes the same as a single transformer with its
weights. Training, evaluation, ablation and patching share one forward pass, `run`, in which hooks (`hooks.py`) read or
replace patterns and outputs. `fast.py` computes the same numbers in fewer passes over memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from hopscope.model.architecture import Architecture
from hopscope.model.hooks import Hooks, PatchableModel, Pattern, Queried, Stream


class Linear(nn.Module):
    """x @ weight + bias, for M models."""

    def __init__(self, models: int, d_in: int, d_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(models, d_in, d_out))
        self.bias = nn.Parameter(torch.zeros(models, 1, d_out))

    def forward(self, x: Float[Tensor, "model batch pos d_in"]) -> Float[Tensor, "model batch pos d_out"]:
        """Apply the map at every position."""
        return torch.baddbmm(self.bias, x.flatten(1, 2), self.weight).view(*x.shape[:3], -1)


class LayerNorm(nn.Module):
    """LayerNorm for M models: scale every position to mean 0 and standard deviation 1, then apply gain and offset."""

    def __init__(self, models: int, d: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(models, 1, d))
        self.bias = nn.Parameter(torch.zeros(models, 1, d))

    def forward(self, x: Stream) -> Stream:
        """Return the normalised stream."""
        return F.layer_norm(x, x.shape[-1:]) * self.weight[:, None] + self.bias[:, None]


class Attention(nn.Module):
    """softmax(q k / divisor) v for each head. The explicit pattern is fast enough for short sequences."""

    def __init__(self, models: int, shape: Architecture) -> None:
        super().__init__()
        self.heads, self.d_head, self.causal = shape.heads, shape.d_head, shape.causal
        self.divisor = shape.divisor
        inner = shape.heads * shape.d_head
        self.query = Linear(models, shape.d_model, inner)
        self.key = Linear(models, shape.d_model, inner)
        self.value = Linear(models, shape.d_model, inner)
        self.out = Linear(models, inner, shape.d_model)

    def pattern(self, x_query: Queried, x: Stream) -> Pattern:
        """Return the pattern from the last positions to all. `x_query` and `x` are their normalised streams."""
        query, key = self._split(self.query(x_query)), self._split(self.key(x))
        return (query @ key.mT / self.divisor + self.mask(query.shape[-2], key)).softmax(dim=-1)

    def write(self, pattern: Pattern, x: Stream) -> Queried:
        """Return the output of attention: the values weighted by the pattern, through the output map."""
        weighted = pattern @ self._split(self.value(x))
        written: Queried = self.out(weighted.transpose(2, 3).flatten(3))
        return written

    def mask(self, queries: int, key: Float[Tensor, "*any pos d_head"]) -> Float[Tensor, "query key"]:
        """Return the mask to add to scores: if causal, minus infinity where a key comes after its query, else 0."""
        shape = queries, key.shape[-2]
        return key.new_full(shape, -math.inf).triu(1 + shape[1] - queries) if self.causal else key.new_zeros(shape)

    def _split(self, x: Float[Tensor, "model batch pos inner"]) -> Float[Tensor, "model batch head pos d_head"]:
        return x.view(*x.shape[:-1], self.heads, self.d_head).transpose(2, 3)


class MLP(nn.Module):
    """Two linear maps with a GELU (in its tanh form, as in GPT-2) in between."""

    def __init__(self, models: int, d_model: int) -> None:
        super().__init__()
        self.up = Linear(models, d_model, 4 * d_model)
        self.down = Linear(models, 4 * d_model, d_model)

    def forward(self, x: Stream) -> Stream:
        """Apply `up`, GELU and `down` at every position."""
        out: Stream = self.down(F.gelu(self.up(x), approximate="tanh"))
        return out


def _norm(models: int, shape: Architecture) -> nn.Module:
    return LayerNorm(models, shape.d_model) if shape.layer_norm else nn.Identity()


class Block(nn.Module):
    """Attention, then MLP, each on a normalised copy of the residual stream and added to it."""

    def __init__(self, models: int, shape: Architecture, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.attention_norm = _norm(models, shape)
        self.attention = Attention(models, shape)
        self.mlp_norm = _norm(models, shape) if shape.mlp else nn.Identity()
        self.mlp = MLP(models, shape.d_model) if shape.mlp else None

    def forward(self, x: Stream, reads: int | None = None, hooks: Hooks | None = None) -> Queried:
        """Return the stream after this block, at the last `reads` positions of every sequence (None for all)."""
        hooks = hooks or Hooks()
        last, normed = -(reads or x.shape[2]), self.attention_norm(x)
        pattern = hooks.pattern(self.layer, self.attention.pattern(normed[:, :, last:], normed))
        x = x[:, :, last:] + hooks.attn_out(self.layer, self.attention.write(pattern, normed))
        return x if self.mlp is None else x + self.mlp(self.mlp_norm(x))


class Transformer(PatchableModel, nn.Module):
    """M transformers of one architecture. Weights are zero until initialised or loaded.

    >>> batch = hs.sample(run.problem, 5, torch.Generator().manual_seed(0))
    >>> run.transformer()(batch.inputs.expand(2, -1, -1, -1)).shape  # the answers of a run's two models
    torch.Size([2, 5, 4, 4])
    """

    block: ClassVar[type[Block]] = Block
    embed: Linear
    blocks: Sequence[Block]

    def __init__(self, shape: Architecture, models: int = 1) -> None:
        super().__init__()
        self.shape, self.models = shape, models
        self.embed = Linear(models, shape.d_input, shape.d_model)
        blocks = nn.ModuleList(self.block(models, shape, layer) for layer in range(shape.layers))
        self.blocks = cast(Sequence[Block], blocks)
        self.norm = _norm(models, shape)
        self.read = Linear(models, shape.d_model, shape.d_output)

    def forward(
        self, inputs: Float[Tensor, "model batch pos d_input"], hooks: Hooks | None = None
    ) -> Float[Tensor, "model batch read d_output"]:
        """Return every model's answers to a batch. The last block is computed only at positions that are read out."""
        return self.answers(self.run(self.embed(inputs), hooks=hooks, reads=self.shape.reads))

    def run_layers(self, x: Stream, layers: range, hooks: Hooks | None, reads: int | None) -> Queried:
        """See `HookedModel.run`."""
        for layer in layers:
            x = self.blocks[layer](x, reads if layer == self.shape.layers - 1 else None, hooks)
        return x

    def pattern_of(self, layer: int, query: Stream, key: Stream) -> Pattern:
        """Return a layer's own pattern, with queries computed from the stream `query` and keys from `key`."""
        block = self.blocks[layer]
        return block.attention.pattern(block.attention_norm(query), block.attention_norm(key))

    def attn_out_of(self, layer: int, pattern: Pattern, value: Stream) -> Stream:
        """Return the output of a layer's attention under `pattern`, with values computed from the stream `value`."""
        block = self.blocks[layer]
        return block.attention.write(pattern, block.attention_norm(value))

    def answers(self, x: Stream) -> Float[Tensor, "model batch pos d_output"]:
        """Return the answers read out from the stream after the last block."""
        read: Tensor = self.read(self.norm(x))
        return read
